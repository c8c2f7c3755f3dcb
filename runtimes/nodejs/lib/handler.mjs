import path from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Imports the module at file (relative to the working directory), CommonJS or ESM, and gives
 * its function `main`. Rejects with what the import threw, or says that there is no `main`.
 */
export async function loadHandler(file) {
  const module = await import(pathToFileURL(path.resolve(file)).href);
  const candidates = [module.main, module.default?.main, module.default];
  const main = candidates.find((candidate) => typeof candidate === 'function');
  if (!main) throw new Error(`${file} does not export a function "main"`);
  return main;
}
