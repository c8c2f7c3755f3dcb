export default () => 'default function';
