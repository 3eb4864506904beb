# Pages of an answer with psycopg 2 or 3; see README.  Both take the same
# calls.  Usage: pages.py psycopg2|psycopg

import json
import os
import sys
import time

DRIVER = sys.argv[1]
if DRIVER == "psycopg2":
    import psycopg2 as driver
else:
    import psycopg as driver


def connect():
    options = {} if DRIVER == "psycopg2" else {"prepare_threshold": None}
    connection = driver.connect(
        host=os.environ["PGHOST"], port=os.environ["PGPORT"],
        user=os.environ["PGUSER"], dbname=os.environ["PGDATABASE"], **options)
    connection.autocommit = True
    return connection


def query(connection, sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def outcome(connection, sql, *parameters):
    """The SQLSTATE of the error, or "none"."""
    try:
        query(connection, sql, *parameters)
        return "none"
    except driver.Error as error:
        state = error.pgcode if DRIVER == "psycopg2" else error.sqlstate
        return state + (" has expired" if "has expired" in str(error) else "")


FETCH = "SELECT k FROM peek_fetch(NULL::item, %s, %s, %s)"
connection = connect()

rows = query(connection,
             "SELECT handle, num_rows, pos, (r).k FROM peek_page(NULL::item,"
             " filter => %s, args => %s, page_rows => %s)",
             "k > $1 AND name <> $2", ["1000", "nobody"], 10)
handle = str(rows[0][0])
print("page: %d rows of %d, k %d to %d, pos %d to %d" % (
    len(rows), rows[0][1], rows[0][3], rows[-1][3], rows[0][2], rows[-1][2]))

rows = query(connection, FETCH, handle, 10, 10)
print("fetch: %d rows, k %d to %d" % (len(rows), rows[0][0], rows[-1][0]))

page = query(connection, "SELECT peek_fetch_json(%s, %s, %s)", handle, 10, 10)[0][0]
print("json: %d rows, k %d, next %d of %d" % (
    len(page["rows"]), page["rows"][0]["k"], page["next"], page["total"]))

keys, backends = [], set()
for start in range(0, 4000, 400):
    for k, pid in query(connection,
                        "SELECT k, pg_backend_pid() FROM peek_fetch(NULL::item, %s, %s, %s)",
                        handle, start, 400):
        keys.append(k)
        backends.add(pid)
print("pages: %d rows, sum %d, %d backends" % (len(keys), sum(keys), len(backends)))

keys = [row[0] for row in query(connection, FETCH, handle, 0, 1500)]
connection.close()
connection = connect()
keys += [row[0] for row in query(connection, FETCH, handle, len(keys), None)]
print("resumed: %d rows, sum %d" % (len(keys), sum(keys)))

SUBMIT = "SELECT peek_submit('item_pkey', options => %s)"
expiring = str(query(connection, SUBMIT, json.dumps({"ttl": 1}))[0][0])
time.sleep(1.5)
print("error unknown:", outcome(connection, FETCH, "00000000-0000-7000-8000-000000000000", 0, 10))
print("error expired:", outcome(connection, FETCH, expiring, 0, 10))
print("error other type:", outcome(connection, "SELECT * FROM peek_fetch(NULL::other, %s)", handle))
print("error too large:", outcome(connection, SUBMIT, json.dumps({"max_result_size": 1})))
print("error option:", outcome(connection, SUBMIT, json.dumps({"nonsense": 1})))
print("error row number:", outcome(connection, FETCH, handle, -1, 10))
connection.autocommit = False
if DRIVER == "psycopg2":
    connection.set_session(readonly=True)
else:
    connection.read_only = True
print("error read only:", outcome(connection, "SELECT peek_submit('item_pkey')"))
connection.rollback()
print("read only fetch:", outcome(connection, FETCH, handle, 0, 10))
connection.rollback()
connection.close()

connection = connect()
for name, sql, parameters in [
        ("number as key", "SELECT * FROM peek(NULL::item, key => %s)", [7]),
        ("text as key", "SELECT * FROM peek(NULL::item, 'item_name', key => %s)", ["n7"]),
        ("numbers as keys", "SELECT * FROM peek(NULL::item, keys => %s)", [[7, 8]]),
        ("texts as keys", "SELECT * FROM peek(NULL::item, 'item_name', keys => %s)", [["n7", "n8"]]),
        ("two columns as key", "SELECT * FROM peek(NULL::item, 'item_both', key => ROW(%s, %s))", ["n7", 7]),
        ("arrangement", "SELECT * FROM peek(NULL::item, %s)", ["item_name"]),
        ("args", "SELECT * FROM peek(NULL::item, filter => %s, args => %s)", ["k = $1", ["7"]]),
        ("columns", "SELECT peek_submit('item_pkey', %s)", [["k", "name"]]),
        ("options", SUBMIT, ['{"ttl": 60}']),
        ("handle", FETCH, [handle, 0, 10]),
        ("interval", "SELECT peek_touch(%s, %s)", [handle, "1 hour"]),
        ("role", "SELECT peek_grant(%s, %s)", [handle, "postgres"])]:
    print("cast %s: %s" % (name, outcome(connection, sql, *parameters)))
print("released:", query(connection, "SELECT peek_release(%s)", handle)[0][0])
