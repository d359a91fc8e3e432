// Runs a command and forwards a port with the JavaScript client: node client.mjs KUBECONFIG PORT
import net from 'node:net';
import { PassThrough, Writable } from 'node:stream';
import { Exec, KubeConfig, PortForward } from '@kubernetes/client-node';

const [path, port] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromFile(path);

function collecting(chunks) {
  return new Writable({ write(chunk, _, done) { chunks.push(chunk); done(); } });
}

async function run(command, input) {
  const out = [], err = [], stdin = new PassThrough();
  const status = await new Promise((resolve, reject) => {
    new Exec(config)
      .exec('default', 'p', 'main', command, collecting(out), collecting(err), input === null ? null : stdin, false, resolve)
      .catch(reject);
    if (input !== null) stdin.end(input);
  });
  return [Buffer.concat(out).toString(), Buffer.concat(err).toString(), status.status, status.details?.causes ?? []];
}

async function forward() {
  const server = net.createServer((socket) => {
    new PortForward(config).portForward('default', 'p', [Number(port)], socket, null, socket);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const socket = net.connect(server.address().port, '127.0.0.1');
  socket.write('hello\n');
  const answer = await new Promise((resolve) => socket.once('data', resolve));
  socket.destroy();
  server.close();
  return answer.toString();
}

console.log(JSON.stringify({
  failed: await run(['sh', '-c', 'echo out; echo err >&2; exit 3'], null),
  echoed: await run(['cat'], 'some input'),
  forwarded: await forward(),
}));
process.exit(0);
