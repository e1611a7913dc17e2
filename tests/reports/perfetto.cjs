// Opens traces in the Perfetto UI and prints, a JSON line for each, what its SQL engine found in them.
// node perfetto.cjs CHROMIUM ADDRESS TRACE...; needs playwright-core where `require` finds it (NODE_PATH).
const { readFileSync } = require('fs');
const { chromium } = require('playwright-core');

const QUERIES = {
  slices: 'select count(*), sum(dur) from slice',
  errors: "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
  flows: 'select count(*) from flow',
  counters: 'select count(*) from counter',
  threads: 'select p.name, t.name, count(s.id) from thread t join process p using (upid) ' +
    'join thread_track k using (utid) join slice s on s.track_id = k.id group by p.name, t.name order by p.name, t.name',
};

async function rows(page, sql) {
  return page.evaluate(async (text) => {
    const result = await window.app.trace.engine.query(text);
    const found = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
      found.push(result.columns().map((name) => (typeof row.get(name) === 'bigint' ? Number(row.get(name)) : row.get(name))));
    }
    return found;
  }, sql);
}

async function main([program, address, ...traces]) {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    for (const trace of traces) {
      const page = await browser.newPage();
      await page.route((url) => !url.href.startsWith(address), (route) => route.abort());
      await page.goto(address);
      await page.waitForFunction(() => window.app && document.querySelector('input.trace_file'));
      await page.setInputFiles('input.trace_file', { name: 'step.json', mimeType: 'application/json', buffer: readFileSync(trace) });
      await page.waitForFunction(() => window.app.trace && window.app.trace.traceInfo, null, { timeout: 60000 });
      const found = {};
      for (const [name, sql] of Object.entries(QUERIES)) found[name] = await rows(page, sql);
      console.log(JSON.stringify(found));
      await page.close();
    }
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => { console.error(String(error)); process.exit(1); });
