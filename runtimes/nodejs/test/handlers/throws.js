throw new Error('no database today');
