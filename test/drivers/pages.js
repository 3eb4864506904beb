// Pages of an answer with node-postgres; see README.

'use strict';

const { Client } = require('pg');

const FETCH = 'SELECT k FROM peek_fetch(NULL::item, $1, $2, $3)';
const SUBMIT = "SELECT peek_submit('item_pkey', options => $1)";

let client;

async function connect() {
  client = new Client();
  await client.connect();
}

async function query(sql, ...parameters) {
  return (await client.query(sql, parameters)).rows;
}

// The SQLSTATE of the error, or "none".
async function outcome(sql, ...parameters) {
  try {
    await query(sql, ...parameters);
    return 'none';
  } catch (error) {
    return error.code + (/has expired/.test(error.message) ? ' has expired' : '');
  }
}

const sum = keys => keys.reduce((a, b) => a + b, 0);
const last = rows => rows[rows.length - 1];

async function main() {
  await connect();

  let rows = await query(
    `SELECT handle, num_rows, pos, (r).k FROM peek_page(NULL::item,
       filter => $1, args => $2, page_rows => $3)`,
    'k > $1 AND name <> $2', ['1000', 'nobody'], 10);
  const handle = rows[0].handle;
  console.log(`page: ${rows.length} rows of ${rows[0].num_rows},`
    + ` k ${rows[0].k} to ${last(rows).k}, pos ${rows[0].pos} to ${last(rows).pos}`);

  rows = await query(FETCH, handle, 10, 10);
  console.log(`fetch: ${rows.length} rows, k ${rows[0].k} to ${last(rows).k}`);

  const [{ page }] = await query('SELECT peek_fetch_json($1, $2, $3) AS page',
    handle, 10, 10);
  console.log(`json: ${page.rows.length} rows, k ${page.rows[0].k},`
    + ` next ${page.next} of ${page.total}`);

  let keys = [];
  const backends = new Set();
  for (let start = 0; start < 4000; start += 400) {
    for (const row of await query(
      'SELECT k, pg_backend_pid() AS pid FROM peek_fetch(NULL::item, $1, $2, $3)',
      handle, start, 400)) {
      keys.push(row.k);
      backends.add(row.pid);
    }
  }
  console.log(`pages: ${keys.length} rows, sum ${sum(keys)}, ${backends.size} backends`);

  keys = (await query(FETCH, handle, 0, 1500)).map(row => row.k);
  await client.end();
  await connect();
  keys = keys.concat((await query(FETCH, handle, keys.length, null)).map(row => row.k));
  console.log(`resumed: ${keys.length} rows, sum ${sum(keys)}`);

  const [{ peek_submit: expiring }] = await query(SUBMIT, { ttl: 1 });
  await new Promise(resolve => setTimeout(resolve, 1500));
  console.log('error unknown:', await outcome(FETCH, '00000000-0000-7000-8000-000000000000', 0, 10));
  console.log('error expired:', await outcome(FETCH, expiring, 0, 10));
  console.log('error other type:', await outcome('SELECT * FROM peek_fetch(NULL::other, $1)', handle));
  console.log('error too large:', await outcome(SUBMIT, { max_result_size: 1 }));
  console.log('error option:', await outcome(SUBMIT, { nonsense: 1 }));
  console.log('error row number:', await outcome(FETCH, handle, -1, 10));
  await query('BEGIN READ ONLY');
  console.log('error read only:', await outcome("SELECT peek_submit('item_pkey')"));
  await query('ROLLBACK');
  await query('BEGIN READ ONLY');
  console.log('read only fetch:', await outcome(FETCH, handle, 0, 10));
  await query('ROLLBACK');

  for (const [name, sql, ...parameters] of [
    ['number as key', 'SELECT * FROM peek(NULL::item, key => $1)', 7],
    ['text as key', "SELECT * FROM peek(NULL::item, 'item_name', key => $1)", 'n7'],
    ['numbers as keys', 'SELECT * FROM peek(NULL::item, keys => $1)', [7, 8]],
    ['texts as keys', "SELECT * FROM peek(NULL::item, 'item_name', keys => $1)", ['n7', 'n8']],
    ['two columns as key', "SELECT * FROM peek(NULL::item, 'item_both', key => ROW($1, $2))", 'n7', 7],
    ['arrangement', 'SELECT * FROM peek(NULL::item, $1)', 'item_name'],
    ['args', 'SELECT * FROM peek(NULL::item, filter => $1, args => $2)', 'k = $1', ['7']],
    ['columns', "SELECT peek_submit('item_pkey', $1)", ['k', 'name']],
    ['options', SUBMIT, '{"ttl": 60}'],
    ['handle', FETCH, handle, 0, 10],
    ['interval', 'SELECT peek_touch($1, $2)', handle, '1 hour'],
    ['role', 'SELECT peek_grant($1, $2)', handle, 'postgres']]) {
    console.log(`cast ${name}: ${await outcome(sql, ...parameters)}`);
  }
  const [{ peek_release: released }] = await query('SELECT peek_release($1)', handle);
  console.log('released:', released ? 'True' : 'False');
  await client.end();
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
