#!/usr/bin/env bash
# What `make recording` shows: a local table, load on it, and the bucket after that.
set -euo pipefail
export PATH=$PWD/dist:$PATH
shown() {
    printf '\e[1;32m$\e[0m '
    for ((i = 0; i < ${#1}; i++)); do printf %s "${1:i:1}"; sleep 0.03; done
    sleep 0.4
    echo
}
run() { shown "$*"; "$@"; sleep 1.5; echo; }

out=$(mktemp)
shown 'zae-limiter dev &'
zae-limiter dev --emulators test/localstack >"$out" &
trap 'kill %1; wait; rm -f "$out"' EXIT
until grep -q Then "$out"; do sleep 0.1; done
sed '/^$/,$d' "$out"
sleep 1
echo
environment=$(sed -n 's/^\. //p' "$out")
shown ". $environment"
. "$environment"
echo
run zae-limiter load --rate 20 --limit rpm=600:20
run zae-limiter peek load-1 load
sleep 3
