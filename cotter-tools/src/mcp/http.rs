//! Reaching a server over HTTP: no proxy and no redirect that the person's settings do not name.

use std::{ffi::OsString, sync::Arc, time::Duration};

use reqwest::{
    Client, Url,
    header::{HeaderName, HeaderValue},
    redirect::Policy,
};
use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};

use super::{launch, link::MESSAGE_BYTES};

/// The way to a server. Nothing is sent yet; the error is in words.
pub(super) fn transport(
    url: &Url,
    headers: &[(HeaderName, String)],
    variables: &[(OsString, OsString)],
) -> Result<StreamableHttpClientTransport<Client>, String> {
    let mut sent = std::collections::HashMap::new();
    for (name, value) in headers {
        let value = launch::expand(value, variables)
            .map_err(|cause| format!("header `{name}`: {cause}"))?;
        let value = HeaderValue::from_str(&value);
        let mut value =
            value.map_err(|_| format!("header `{name}` has letters that none may have"))?;
        value.set_sensitive(true);
        sent.insert(name.clone(), value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(sent)
        .max_sse_event_size(MESSAGE_BYTES)
        // It would call again what may have had an effect.
        .reinit_on_expired_session(false);
    let client = client(url.scheme() == "https").map_err(|cause| cause.to_string())?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn client(with_roots: bool) -> Result<Client, Box<dyn std::error::Error>> {
    let client = Client::builder()
        .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .no_proxy()
        .tls_backend_preconfigured(tls(with_roots)?);
    Ok(client.build()?)
}

/// TLS with the roots this machine trusts; a plain connection goes without.
fn tls(with_roots: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    let mut config = match with_roots {
        true => config.with_platform_verifier()?.with_no_client_auth(),
        false => {
            config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
