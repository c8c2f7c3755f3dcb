export async function main() {
  return 'esm';
}
