//! Turns `proto/specfleet/v1` into Rust with protox, so that no protoc is needed to build.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const PROTO_ROOT: &str = "../../proto";
const FILES: [&str; 4] = [
    "specfleet/v1/draft.proto",
    "specfleet/v1/identity.proto",
    "specfleet/v1/sampling.proto",
    "specfleet/v1/verifier.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO_ROOT}/specfleet");
    let descriptors = protox::compile(FILES, [PROTO_ROOT])?;

    // The same descriptors feed the generated code and, through this file, server reflection.
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join("specfleet_descriptor.bin"), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        // Ordered maps: the same report always encodes to the same bytes and prints in the same order.
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
