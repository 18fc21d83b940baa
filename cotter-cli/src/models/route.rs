//! The route to a provider: the sources of its key and address, and its proxy. It is shown when a request
//! fails.

use cotter::{hooks::points::RunFailure, text};

use crate::models::{LOCAL, ProviderSet, no_key_hint};

/// The parts of the route that differ from the default, each in words.
#[derive(Debug, Default)]
pub(crate) struct ProviderRoute {
    /// The source of the key.
    pub(crate) key: Option<String>,
    /// The source of the address.
    pub(crate) address: Option<String>,
    /// The proxy on the way.
    pub(crate) proxy: Option<String>,
}

impl ProviderSet {
    /// Returns a hint for a failure. `models` are the models that were asked, in order.
    pub(crate) fn hint(&self, failed: &RunFailure, models: &[String]) -> Option<String> {
        // A cassette plays, so nothing was sent.
        if self.is_playing {
            return None;
        }
        // The last model failed last, unless the failure names another.
        let named = models.iter().rev().find(|name| failed.message.contains(name.as_str()));
        let (provider, _) = named.or(models.last())?.split_once('/')?;
        let route = self.routes.get(provider)?;
        match failed.code.as_str() {
            "auth" => Some(match &route.key {
                Some(source) => {
                    format!("the key that was sent is from {}", text::show_line(source))
                }
                None => {
                    format!("no key was sent: {}", no_key_hint(provider, self.variable(provider)))
                }
            }),
            "network" => route.hint(provider),
            _ => None,
        }
    }
}

impl ProviderRoute {
    /// Returns the hint for a provider that does not answer.
    fn hint(&self, provider: &str) -> Option<String> {
        let running = (provider == LOCAL).then(|| "is Ollama running?".to_owned());
        let address = self.address.as_ref().map(|source| format!("the address is from {source}"));
        let proxy = self.proxy.as_ref().map(|proxy| format!("requests go through {proxy}"));
        let origins: Vec<_> = [address, proxy].into_iter().flatten().collect();
        let origins = Some(origins.join("; ")).filter(|origins| !origins.is_empty());
        let hints: Vec<_> = [running, origins].into_iter().flatten().collect();
        Some(hints.join(" ")).filter(|hints| !hints.is_empty())
    }
}
