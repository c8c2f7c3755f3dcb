// Takes 2 GiB of memory.
const taken = [];
for (let i = 0; i < 32; i++) taken.push(Buffer.alloc(64 << 20, 1));
console.log("took " + taken.length * 64 + " MiB");
