# Sourced by the checks: TAP lines, and the tree's files.
#
# Not under set -e: a grep that finds nothing is what a check hopes for.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

# report NAME: the test fails if there are lines, which it shows, on standard input.
report()
{
	local offenders

	offenders=$(cat)
	if [ -z "$offenders" ]; then
		echo "ok - $1"
	else
		echo "not ok - $1"
		printf '%s\n' "$offenders" | sed 's/^/# /'
	fi
}

c_files() { find src cuda test/unit -name '*.[ch]' 2> /dev/null | sort; }
postgres_files() { c_files | grep -E '^src/' | grep -vE "$without_postgres"; }
device_files() { c_files | grep -E "$without_postgres"; }

# What knows nothing of PostgreSQL.
without_postgres='^(cuda/|src/(columns|device)/|src/program/((check|print|hash|op)\.c|(program|op|ops|bytes)\.h)$)'
