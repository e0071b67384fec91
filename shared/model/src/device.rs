//! Which device computes, and CUDA support that is there only where it is needed.
//!
//! The CUDA half of libtorch is a separate library of gigabytes. Linking to it would make every CPU-only
//! machine carry it, so nothing links to it: when a GPU may be wanted, it is loaded at start, with its
//! symbols made global, before the first call to libtorch; there it registers itself. One binary thus serves
//! machines with and without.
#![allow(unsafe_code)]

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// The device that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The first GPU if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this index.
    Cuda(usize),
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the name of a device.
    #[error("unknown device {0:?}; use auto, cpu, cuda or cuda:INDEX")]
    Unknown(String),
    /// CUDA was asked for by name and cannot be had.
    #[error("device cuda:{index} cannot be used: {reason}; use --device cpu, or point LIBTORCH to a CUDA build")]
    NoCuda {
        /// Index of the GPU that was asked for.
        index: usize,
        /// What is missing.
        reason: String,
    },
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let index = text.strip_prefix("cuda:").and_then(|index| index.parse().ok());
                index.map(Self::Cuda).ok_or_else(|| Error::Unknown(text.into()))
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl Device {
    /// libtorch's name of the device, after making sure that it is there.
    ///
    /// # Errors
    /// [`Error::NoCuda`] if a GPU was asked for by name; `Auto` falls back to the CPU.
    pub(crate) fn resolve(self) -> Result<tch::Device, Error> {
        match self {
            Self::Cpu => Ok(tch::Device::Cpu),
            Self::Auto => Ok(cuda_devices().map_or_else(on_cpu, |_| tch::Device::Cuda(0))),
            Self::Cuda(index) => match cuda_devices() {
                Ok(n_devices) if index < n_devices => Ok(tch::Device::Cuda(index)),
                Ok(n_devices) => Err(Error::NoCuda { index, reason: format!("there are {n_devices} GPUs") }),
                Err(reason) => Err(Error::NoCuda { index, reason }),
            },
        }
    }
}

/// What `auto` takes without a GPU, saying why.
fn on_cpu(reason: String) -> tch::Device {
    tracing::info!(reason, "computing on the CPU");
    tch::Device::Cpu
}

/// As many threads as there are cores that this process may use. A second thread on a core competes for the
/// same memory bandwidth and arithmetic units.
pub(crate) fn default_threads() -> NonZeroUsize {
    let allowed = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let cores = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|cpuinfo| n_cores(&cpuinfo));
    cores.map_or(allowed, |cores| cores.min(allowed))
}

/// Distinct (socket, core) pairs of a Linux `/proc/cpuinfo`, if it lists them.
fn n_cores(cpuinfo: &str) -> Option<NonZeroUsize> {
    let values = |key: &'static str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.filter(move |(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let cores: std::collections::HashSet<_> = values("physical id").zip(values("core id")).collect();
    NonZeroUsize::new(cores.len())
}

/// How many GPUs libtorch can use, at least one, or what is missing.
fn cuda_devices() -> Result<usize, String> {
    static CUDA_LIBRARY: OnceLock<Result<(), String>> = OnceLock::new();
    CUDA_LIBRARY.get_or_init(load_cuda_library).clone()?;
    let n_devices = usize::try_from(tch::Cuda::device_count()).unwrap_or(0);
    if tch::Cuda::is_available() && n_devices > 0 {
        Ok(n_devices)
    } else {
        Err("libtorch has CUDA support but finds no GPU; is the driver loaded (nvidia-smi)?".into())
    }
}

fn load_cuda_library() -> Result<(), String> {
    const NAME: &str = "libtorch_cuda.so";
    // Only the one that belongs to this libtorch: another version's would not fit it.
    let path = libtorch_folder().map_or_else(|| NAME.into(), |folder| folder.join(NAME));
    // SAFETY: the library's initialisers register operators with libtorch, which is what we want and what
    // they do in every program that links to it. It stays loaded for good.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).map_err(|error| format!("this libtorch has no CUDA support ({error})"))
}

/// Where the running libtorch was loaded from.
fn libtorch_folder() -> Option<PathBuf> {
    let mappings = std::fs::read_to_string("/proc/self/maps").ok()?;
    let library = mappings.lines().find(|line| line.ends_with("/libtorch_cpu.so"))?;
    Path::new(&library[library.find('/')?..]).parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn device_names_round_trip() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3"] {
            assert_eq!(name.parse::<Device>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            assert!(name.parse::<Device>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn asking_for_a_gpu_that_is_not_there_says_why_and_auto_falls_back() {
        match Device::Cuda(999).resolve() {
            Err(Error::NoCuda { index: 999, reason }) => assert!(!reason.is_empty()),
            other => panic!("{other:?}"),
        }
        assert!(Device::Auto.resolve().is_ok());
        assert_eq!(Device::Cpu.resolve().unwrap(), tch::Device::Cpu);
    }

    #[test]
    fn cores_are_counted_once_however_many_threads_they_have() {
        let cpu = |socket: u32, core: u32| format!("processor\t: 0\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n");
        let cpuinfo = [cpu(0, 0), cpu(0, 1), cpu(0, 0), cpu(1, 0)].concat();
        assert_eq!(n_cores(&cpuinfo), NonZeroUsize::new(3));
        assert_eq!(n_cores("processor : 0\n"), None);
    }
}
