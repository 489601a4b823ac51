# What the scripts under test/ and bench/ share; sourced by bash.
#
# Gives $top (the source tree), $build and $work, and functions that install
# missing packages, make a private PostgreSQL with gpuscan in it, and run
# commands as the user that may run a server.
#
#	PG_CONFIG=...		uses that PostgreSQL, into which gpuscan is installed, instead of
#				a private copy of Debian's, and installs no packages
#	GPUSCAN_DEVICE=...	gpuscan.device of the servers
#
# $work is build/work, or, where the server's user cannot reach that, a folder
# under /tmp to which build/work is a link.  `make clean` removes either.

set -euo pipefail
umask 022

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
pg_major=${PG_MAJOR:-15}
postgres_packages=("postgresql-$pg_major" "postgresql-server-dev-$pg_major")
jobs=$(nproc)

# No settings of the make that called us.
unset MAKEFLAGS MAKELEVEL MFLAGS
export LC_ALL=C.UTF-8

say() { printf '%s\n' "== $*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# A server refuses to run as root: then it is user postgres that runs it.
server_user=$(id -un)
if [ "$(id -u)" -eq 0 ]; then
	server_user=postgres
fi

as_server_user()
{
	if [ "$(id -un)" = "$server_user" ]; then
		"$@"
	else
		setpriv --reuid "$server_user" --regid "$server_user" --init-groups env HOME="$work" "$@"
	fi
}

# The settings of every cluster that a test starts.
server_settings()
{
	cat "$top/test/postgresql.conf"
	if [ -n "${GPUSCAN_DEVICE-}" ]; then
		echo "gpuscan.device = '$GPUSCAN_DEVICE'"
	fi
}

# The tests in an output: lines of TAP, of pg_regress, or a line `N passed, N failed`.
count_tests()
{
	awk '/^ok( [0-9]| -)/ || /\.\.\. ok /					{ passed++ }
		 /^not ok/ || /\.\.\. FAILED/						{ failed++ }
		 /^[0-9]+ passed, [0-9]+ failed$/					{ passed += $1; failed += $3 }
		 END												{ print passed + 0, failed + 0 }' "$1"
}

# need PACKAGE...: installs those that are missing.
need()
{
	local package missing=() sudo=()

	[ -z "${PG_CONFIG-}" ] || return 0
	command -v dpkg-query > /dev/null || die "this needs Debian's or Ubuntu's packages: $*"
	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		sudo -n true 2> /dev/null ||
			die "please install what is missing first: apt-get install ${missing[*]}"
		sudo=(sudo)
	fi
	say "installing ${missing[*]} (apt-get)"
	mkdir -p "$build"
	{
		"${sudo[@]}" apt-get -q update &&
			"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
				apt-get -q -y --no-install-recommends install "${missing[@]}"
	} > "$build/apt.log" 2>&1 || { tail -n 20 "$build/apt.log"; die "apt-get failed"; }
}

# Sets $work.
need_work()
{
	mkdir -p "$build"
	if [ ! -d "$build/work" ]; then
		if [ -L "$build/work" ]; then
			rm "$build/work"
		fi
		mkdir "$build/work"
		work=/
		if ! as_server_user test -x "$build/work" 2> /dev/null; then
			rmdir "$build/work"
			ln -s "$(mktemp -d /tmp/gpuscan.XXXXXX)" "$build/work"
			chmod 755 "$build/work/"
		fi
	fi
	work=$(readlink -f "$build/work")
}

# A PostgreSQL of our own, $work/pg.
#
# Debian's server finds its libraries and shared files relative to its
# binaries, so a copy of its folders is a whole installation, whose pg_config
# names the copy alone.  Nothing is installed into the system's PostgreSQL.
copy_postgres()
{
	local root=$work/pg version

	version=$(dpkg-query -W "postgresql-$pg_major" "postgresql-server-dev-$pg_major" \
		"postgresql-client-$pg_major")
	if [ "$(cat "$root/version" 2> /dev/null)" != "$version" ]; then
		rm -rf "$root"
		mkdir -p "$root/usr/lib/postgresql" "$root/usr/share/postgresql" "$root/usr/include"
		cp -a "/usr/lib/postgresql/$pg_major" "$root/usr/lib/postgresql/"
		cp -a "/usr/share/postgresql/$pg_major" "$root/usr/share/postgresql/"
		ln -s /usr/include/postgresql "$root/usr/include/postgresql"
		printf '%s\n' "$version" > "$root/version"
	fi
}

# Builds the extension and installs it into a PostgreSQL of our own, or PG_CONFIG's; sets
# $bindir and $pgxs.  Scripts called by one that did so find it done.
need_private_postgres()
{
	local pg_config=${PG_CONFIG-}

	need make gcc libc6-dev "${postgres_packages[@]}"
	need_work
	if [ -z "$pg_config" ]; then
		copy_postgres
		pg_config=$work/pg/usr/lib/postgresql/$pg_major/bin/pg_config
	fi
	# No server but ours.
	unset ${!PG@}
	export PG_CONFIG=$pg_config
	bindir=$("$PG_CONFIG" --bindir)
	pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")/../..
	if [ "${gpuscan_installed-}" != "$bindir" ]; then
		mkdir -p "$build/log"
		make -C "$top" -j "$jobs" install > "$build/log/build" 2>&1 ||
			{ grep -E 'error|Error|\*\*\*' -A 5 "$build/log/build" | head -n 60; die "the build failed: $build/log/build"; }
		export gpuscan_installed=$bindir
	fi
}

# An empty folder of the server's user under $work.
fresh_folder()
{
	rm -rf "${work:?}/$1"
	mkdir -p "$work/$1"
	if [ "$(id -un)" != "$server_user" ]; then
		chown "$server_user" "$work/$1"
	fi
}
