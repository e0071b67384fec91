# Functions that up, down and the tests share; sourced, never run.

step() { printf '\n== %s\n' "$*" >&2; }

cache_dir() { printf '%s' "${SPECFLEET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/specfleet}"; }

# Process ids and logs of the services that `up` started.
run_dir() { printf '%s/run' "$(cache_dir)"; }

# The folder that cargo puts the binaries of a profile in.
binaries() {
    local root=$1 profile=$2
    [ "$profile" = dev ] && profile=debug
    printf '%s/%s' "${CARGO_TARGET_DIR:-$root/target}" "$profile"
}

# The full draft checkpoint: the distilled layers with the target's embedding. Made once for each pair of files.
assembled_draft() {
    local root=$1 bin=$2 target=$3 head folder
    head="$root/deploy/models/smollm2-draft/draft.safetensors"
    folder="$(cache_dir)/smollm2-draft-$(cat "$head" "$target" | sha256sum | cut -c1-12)"
    if [ ! -d "$folder" ]; then
        "$bin/draft-service" assemble --target "$target" --draft "$head" --out "$folder" >&2
    fi
    printf '%s' "$folder"
}

start_service() {
    local name=$1
    shift
    "$@" >"$(run_dir)/$name.log" 2>&1 </dev/null &
    echo $! >"$(run_dir)/$name.pid"
    disown
    printf '%s: process %s, log %s\n' "$name" "$!" "$(run_dir)/$name.log" >&2
}

service_alive() { kill -0 "$(cat "$1")" 2>/dev/null; }

# SIGTERM to all, then waits for their drain; SIGKILL for what is left after 40 seconds.
stop_services() {
    local file pid waited=0
    for file in "$(run_dir)"/*.pid; do
        [ -e "$file" ] && service_alive "$file" && kill -TERM "$(cat "$file")" 2>/dev/null
    done
    for file in "$(run_dir)"/*.pid; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        while kill -0 "$pid" 2>/dev/null; do
            [ $waited -lt 400 ] || { kill -KILL "$pid" 2>/dev/null || true; break; }
            sleep 0.1
            waited=$((waited + 1))
        done
        rm -f "$file"
    done
}

# Shows the end of the log of a service that is gone, and fails.
fail_if_dead() {
    local file name
    for file in "$(run_dir)"/*.pid; do
        name=$(basename "$file" .pid)
        if ! service_alive "$file"; then
            printf 'up: %s has stopped; the end of its log:\n' "$name" >&2
            tail -n 20 "$(run_dir)/$name.log" >&2
            return 1
        fi
    done
}

wait_until_ready() {
    local specctl=$1 drafts=$2 waited=0 ready
    printf 'loading the models' >&2
    while true; do
        ready=$("$specctl" identity --json 2>/dev/null | grep -o '"state": *"ready"' | wc -l)
        [ "$ready" -ge "$drafts" ] && break
        fail_if_dead || return 1
        [ $waited -lt 600 ] || { echo; echo "up: not ready after two minutes; logs are in $(run_dir)" >&2; return 1; }
        printf '.' >&2
        sleep 0.2
        waited=$((waited + 1))
    done
    echo >&2
}

watch_services() {
    while fail_if_dead; do sleep 1; done
}
