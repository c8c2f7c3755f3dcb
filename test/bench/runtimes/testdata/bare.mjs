// What a runtime server is held against: Node.js' own server and nothing else.
import http from 'node:http';

const { SERVER_HOST, SERVER_PORT } = process.env;
http.createServer((req, res) => res.end('hello')).listen(Number(SERVER_PORT), SERVER_HOST);
