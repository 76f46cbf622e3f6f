#!/bin/sh
# The loop with a scripted agent, in a temporary repository: a failing check, the way back, a rejection, a new
# plan, and an engine that is killed in between. Needs no account and no network.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$source" "$folder/slugs"
cd "$folder/slugs"
export XDG_STATE_HOME="$folder/state" XDG_CONFIG_HOME="$folder/config"
git init -q .
git add .
git -c user.name=demo -c user.email=demo@localhost commit -qm "Start"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

printf '$ agentforge run "Add a slugify function" --provider scripted -s slug\n'
SLOW=s2 agentforge run "Add a slugify function" --provider scripted -s slug > ../run.log 2>&1 &
engine=$!
while kill -0 "$engine" 2> ../killed.log && ! grep -qs "item s2" ../run.log; do sleep 0.1; done
sleep 1
kill -KILL "$engine"
wait "$engine" 2> ../killed.log || true
cat ../run.log
printf '\n✗ The engine was killed in step 2 (SIGKILL). Its agent goes on.\n'
show agentforge recover
show agentforge show slug --history --cycles
show agentforge show slug --items
show agentforge show slug --metrics
show agentforge diff slug
