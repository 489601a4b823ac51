# What the scripts of this folder share, beside test/environment.sh; sourced by bash.

clicks=$top/bench/clicks
queries=()
small_queries=() # those of them whose results are small
for file in "$clicks"/[0-9]-*.sql; do
	queries+=("$(basename "$file" .sql)")
	[[ $file = *by-user* ]] || small_queries+=("${queries[-1]}")
done

sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }

# load_clicks ROWS SESSIONS: the table, every block settled and in the buffers.
load_clicks()
{
	local session pids=() pid

	cd "$clicks"
	sql -f table.sql
	for ((session = 0; session < $2; session++)); do
		sql -v rows="$1" -v session=$session -v sessions="$2" -f rows.sql &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || die 'the table could not be loaded'
	done
	sql -c 'VACUUM (ANALYZE) clicks' -c CHECKPOINT
	sql -F ', ' -c "SELECT pg_size_pretty(pg_relation_size('clicks')), pg_prewarm('clicks') || ' blocks'"
	cd - > /dev/null
}

# plan SETTINGS NAME [OPTION,]: of query NAME.
plan() { sql -c "$1 EXPLAIN (${3-} COSTS OFF) $(cat "$clicks/$2.sql")"; }

# ok NAME COMMAND...: a test of the command's status, with its output.
ok()
{
	local name=$1 out

	shift
	if out=$("$@" 2>&1); then
		echo "ok - $name${out:+: $out}"
	else
		echo "not ok - $name"
		tail -n 20 <<< "$out" | sed 's/^/# /'
	fi
}

# Whether query NAME is answered from columns alone.
all_cached()
{
	local plan

	plan=$(plan 'SET gpuscan.enabled = on;' "$1" ANALYZE,)
	grep -q 'Blocks Cached' <<< "$plan" && ! grep -E 'Blocks (Read|Loose|Loaded)' <<< "$plan"
}

# same_answers SETTINGS NAME: compares the rows of query NAME, gpuscan off and on.
same_answers()
{
	local query

	query=$(cat "$clicks/$2.sql")
	{
		echo "$1 SET gpuscan.enabled = off; CREATE TEMP TABLE off AS $query;"
		echo "SET gpuscan.enabled = on; CREATE TEMP TABLE \"on\" AS $query;"
		cat "$clicks/compare.sql"
	} | sql 2>&1 | sed 's/^INFO:  //'
}

# times SETTINGS NAME RUNS: of query NAME in ms, one in a line.  The rows of the
# result are consumed on the server, by counting each of their columns.
times()
{
	local query columns run

	query=$(cat "$clicks/$2.sql")
	columns=$(sql -F ' ' <<< "$query \\gdesc" | awk '{ printf ", count(%s)", $1 }')
	{
		echo "$1"
		echo '\timing on'
		for ((run = 0; run < $3; run++)); do
			echo "SELECT count(*)$columns FROM ($query) AS q;"
		done
	} | sql | awk '/^Time:/ { print $2 }'
}

median() { sort -n | awk '{ lines[NR] = $0 } END { print lines[int((NR + 1) / 2)] }'; }

cached_pages() { sql -c 'SELECT coalesce(sum(blocks_cached), 0) FROM gpuscan_cache'; }
seconds_since() { awk -v ns=$(($(date +%s%N) - $1)) 'BEGIN { printf "%.1f", ns / 1e9 }'; }

# Restarts the server and waits, asking for nothing but what is cached.
restart_and_wait()
{
	local pages data started server

	need_work
	pages=$(cached_pages)
	data=$(sql -c 'SHOW data_directory')
	started=$(date +%s%N)
	as_server_user pg_ctl -D "$data" -l "${data%/*}/log" -w -t 300 restart > /dev/null
	server=$(seconds_since "$started")
	until [ "$(cached_pages)" -ge "$pages" ]; do
		[ $((($(date +%s%N) - started) / 1000000000)) -lt 60 ] || return 1
		sleep 0.1
	done
	echo "it runs after $server s, what was cached is there again after $(seconds_since "$started") s"
}
