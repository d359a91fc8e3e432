// The JavaScript client: create, list, watch that begins again, every patch, apply, delete; prints what it saw as JSON.
import * as k8s from '@kubernetes/client-node';

const [kubeconfig, namespace] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const seen = {};

const maps = { namespace };
await core.createNamespacedConfigMap({ ...maps, body: { metadata: { name: 'a', labels: { x: 'y' } }, data: { k: 'v' } } });
seen.listed = (await core.listNamespacedConfigMap({ ...maps, labelSelector: 'x=y' })).items.map((each) => each.metadata.name);
const types = {
  [k8s.PatchStrategy.JsonPatch]: [{ op: 'replace', path: '/data/k', value: 'w' }],
  [k8s.PatchStrategy.MergePatch]: { data: { m: '1' } },
  [k8s.PatchStrategy.StrategicMergePatch]: { data: { s: '2' } },
};
for (const [type, body] of Object.entries(types)) {
  await core.patchNamespacedConfigMap({ ...maps, name: 'a', body }, k8s.setHeaderOptions('Content-Type', type));
}
seen.patched = (await core.readNamespacedConfigMap({ ...maps, name: 'a' })).data;
const applied = await core.patchNamespacedConfigMap(
  { ...maps, name: 's', fieldManager: 'js', body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 's' }, data: { a: 'b' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply),
);
seen.applied = applied.metadata.managedFields[0].operation;

const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap(maps));
const added = new Set();
await new Promise(async (resolve, reject) => {
  informer.on('add', (each) => {
    added.add(each.metadata.name);
    if ([...added].filter((name) => name.startsWith('c')).length === 10) resolve();
  });
  informer.on('error', reject);
  await informer.start();
  for (let number = 0; number < 10; number++) {
    await core.createNamespacedConfigMap({ ...maps, body: { metadata: { name: `c${number}` } } });
  }
});
await informer.stop();
seen.informed = added.size >= 12;

try {
  await core.createNamespacedConfigMap({ ...maps, body: { metadata: { name: 'a' } } });
} catch (error) {
  seen.refused = [error.code, JSON.parse(error.body).reason];
}
await core.deleteNamespacedConfigMap({ ...maps, name: 'a' });
console.log(JSON.stringify(seen));
process.exit(0);
