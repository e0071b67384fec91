# Functions that up, down and the tests share; sourced, never run.

step() { printf '\n== %s\n' "$*" >&2; }

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        echo "'$tool' is missing: install Rust (1.95 or later), Python 3 with pip, and a C++ compiler" >&2
        return 1
    done
}

cache_dir() { printf '%s' "${SPECFLEET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/specfleet}"; }

# Process ids and logs of the services that `up` started.
run_dir() { printf '%s/run' "$(cache_dir)"; }

# The folder that cargo puts the binaries of a profile in.
binaries() {
    local root=$1 profile=$2 target
    [ "$profile" = dev ] && profile=debug
    target=$(cargo metadata --manifest-path "$root/Cargo.toml" --no-deps --format-version 1 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])') || return 1
    printf '%s/%s' "$target" "$profile"
}

# The full draft checkpoint: the distilled layers with the target's embedding. Made once for each pair of files; the
# number in its name is raised when what `assemble` writes changes.
assembled_draft() {
    local root=$1 bin=$2 target=$3 head digest folder
    head="$root/deploy/models/smollm2-draft/draft.safetensors"
    digest=$(cat "$head" "$target" | sha256sum | cut -c1-12) || return 1
    folder="$(cache_dir)/smollm2-draft-1-$digest"
    # Held until the subshell that this runs in ends.
    exec 8>"$(cache_dir)/.draft.lock" && flock 8 || return 1
    if [ ! -d "$folder" ]; then
        rm -rf "$(cache_dir)"/.smollm2-draft-*.partial-* # of runs that were interrupted
        "$bin/draft-service" assemble --target "$target" --draft "$head" --out "$folder" >&2 || return 1
    fi
    printf '%s' "$folder"
}

# Coarse weights cost a draft a little acceptance and halve what it reads. They need our own operators, and those a CPU
# with these instructions; on a GPU libtorch's operators run.
draft_dtype() {
    if [ -e "$LIBTORCH/lib/libtorch_cuda.so" ] || [ "${SPECFLEET_OPERATORS:-auto}" = libtorch ] ||
        ! grep -qw avx512_bf16 /proc/cpuinfo || ! grep -qw avx512_vnni /proc/cpuinfo; then
        printf bf16
    else
        printf int8
    fi
}

# When a process started, in ticks since boot: with its id it names a process for good. Nothing for one that has ended and
# waits for its parent to notice.
start_time() { awk '$3 != "Z" { print $22 }' "/proc/$1/stat" 2>/dev/null; }

# In a session of its own: Ctrl-C in `up` must reach it once, as the SIGTERM of stop_services, because a second signal
# ends it without finishing its requests.
start_service() {
    local name=$1 pid
    shift
    setsid "$@" >"$(run_dir)/$name.log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$(run_dir)/$name.pid"
    disown
    printf '%s: process %s, log %s\n' "$name" "$pid" "$(run_dir)/$name.log" >&2
}

# Whether the process of a pid file still runs, and not another one that has got its number.
service_alive() {
    local pid='' started=''
    read -r pid started 2>/dev/null <"$1" || true
    [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ]
}

# SIGTERM to all, then waits for their drain; SIGKILL for what is left after 40 seconds.
stop_services() {
    local file pid waited=0
    for file in "$(run_dir)"/*.pid; do
        [ -e "$file" ] || continue
        service_alive "$file" || continue
        read -r pid _ <"$file"
        kill -TERM "$pid" 2>/dev/null || true
    done
    for file in "$(run_dir)"/*.pid; do
        [ -e "$file" ] || continue
        read -r pid _ <"$file"
        while service_alive "$file"; do
            [ "$waited" -lt 400 ] || { kill -KILL "$pid" 2>/dev/null || true; }
            [ "$waited" -lt 450 ] || { echo "process $pid does not end" >&2; break; }
            sleep 0.1
            waited=$((waited + 1))
        done
        rm -f "$file"
    done
}

# Shows the end of the log of a service that is gone.
report_dead() {
    printf '%s has stopped; the end of its log:\n' "$1" >&2
    tail -n 20 "$(run_dir)/$1.log" >&2
}

# Fails when a service is gone.
all_alive() {
    local file
    for file in "$(run_dir)"/*.pid; do
        service_alive "$file" || { report_dead "$(basename "$file" .pid)"; return 1; }
    done
}

wait_until_ready() {
    local specctl=$1 endpoint=$2 drafts=$3 waited=0 identity ready
    printf 'loading the models' >&2
    while true; do
        all_alive || return 1
        if identity=$("$specctl" --endpoint "$endpoint" identity --json 2>/dev/null); then
            ready=$(grep -o '"state": *"ready"' <<<"$identity" | wc -l) || true
            [ "$ready" -lt "$drafts" ] || break
        fi
        [ "$waited" -lt 600 ] || { echo "not ready after two minutes; logs are in $(run_dir)" >&2; return 1; }
        printf '.' >&2
        sleep 0.2
        waited=$((waited + 1))
    done
    echo >&2
}

# Returns when the verifier is gone. Drafts may come and go: that is what the pair is for.
watch_services() {
    local file
    while service_alive "$(run_dir)/verifier.pid"; do
        for file in "$(run_dir)"/draft-*.pid; do
            [ -e "$file" ] && ! service_alive "$file" || continue
            report_dead "$(basename "$file" .pid)"
            echo "The verifier goes on; without a draft it decodes plainly." >&2
            rm -f "$file"
        done
        sleep 1
    done
    [ ! -e "$(run_dir)/verifier.pid" ] || report_dead verifier
}
