//! A round waits for its proposal, so a connection must neither hold small messages back nor take minutes to notice that
//! the other side is gone. gRPC's defaults do both.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

mod in_memory;

pub use in_memory::{Incoming, in_memory};

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not parse as an address.
    #[error("{address:?} is not an address ({source}); write http://HOST:PORT")]
    Address {
        /// As given.
        address: String,
        /// What the parser says.
        source: tonic::transport::Error,
    },
    /// It asks for a protocol that is not spoken.
    #[error("{address:?} asks for {scheme:?}; write http://HOST:PORT")]
    Scheme {
        /// As given.
        address: String,
        /// The part before `://`.
        scheme: String,
    },
}

/// How a connection behaves. The defaults fit two services in one data centre.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// How long one attempt to connect may take. Default 2 s: a SYN that is lost once is sent again after 1 s.
    pub connect_timeout: Duration,
    /// Silence after which the peer is asked for a sign of life. Default 5 s.
    pub keepalive_interval: Duration,
    /// How long it may take to answer before the connection and its streams end. Default 3 s. Shorter would take a peer
    /// for dead whose cores are all busy with a long prefill.
    pub keepalive_timeout: Duration,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            keepalive_interval: Duration::from_secs(5),
            keepalive_timeout: Duration::from_secs(3),
        }
    }
}

/// An endpoint for `HOST:PORT` or `http://HOST:PORT`, ready to connect.
pub fn endpoint(address: &str, options: &ChannelOptions) -> Result<Endpoint, Error> {
    let with_scheme = match address.split_once("://") {
        Some(("http", _)) => address.to_owned(),
        Some((scheme, _)) => {
            return Err(Error::Scheme { address: address.to_owned(), scheme: scheme.to_owned() });
        }
        None => format!("http://{address}"),
    };
    let endpoint =
        Endpoint::from_shared(with_scheme).map_err(|source| Error::Address { address: address.to_owned(), source })?;
    Ok(tuned(endpoint, options))
}

/// A channel that connects at its first use, and again after each loss. Does not fail for an absent peer; calls do.
pub fn connect_lazy(address: &str, options: &ChannelOptions) -> Result<Channel, Error> {
    Ok(endpoint(address, options)?.connect_lazy())
}

fn tuned(endpoint: Endpoint, options: &ChannelOptions) -> Endpoint {
    endpoint
        // Messages of a few hundred bytes each way: waiting to fill a packet would cost up to 40 ms a round.
        .tcp_nodelay(true)
        .connect_timeout(options.connect_timeout)
        .http2_keep_alive_interval(options.keepalive_interval)
        .keep_alive_timeout(options.keepalive_timeout)
        // An idle session is still a session: without this its loss shows only when the next round waits for it.
        .keep_alive_while_idle(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_may_leave_out_the_scheme() {
        let options = ChannelOptions::default();
        for address in ["localhost:50052", "http://localhost:50052"] {
            let endpoint = endpoint(address, &options).unwrap();
            assert_eq!(endpoint.uri().authority().unwrap(), "localhost:50052");
            assert_eq!(endpoint.uri().scheme_str(), Some("http"));
            assert!(endpoint.get_tcp_nodelay());
        }
    }

    #[test]
    fn what_cannot_be_dialled_is_refused_with_the_form_to_write() {
        let options = ChannelOptions::default();
        for address in ["https://draft:50052", "not an address", "http://", ""] {
            let text = endpoint(address, &options).unwrap_err().to_string();
            assert!(text.contains("http://HOST:PORT"), "{text}");
        }
    }
}
