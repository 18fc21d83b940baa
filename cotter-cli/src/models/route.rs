//! How a provider is reached, for whoever did not reach it: where the key and the address come from,
//! and by whom the way leads.

use cotter::{hooks::points::RunFailure, text};

use crate::models::{LOCAL, ProviderSet, no_key_hint};

/// What does not go without saying on the way to a provider, each in words.
#[derive(Debug, Default)]
pub(crate) struct ProviderRoute {
    /// Where its key is from.
    pub(crate) key: Option<String>,
    /// Who tells its address.
    pub(crate) address: Option<String>,
    /// The proxy before it.
    pub(crate) proxy: Option<String>,
}

impl ProviderSet {
    /// What may help whoever gets this failure. The models are those who were asked, in their order.
    pub(crate) fn hint(&self, failed: &RunFailure, models: &[String]) -> Option<String> {
        // Nothing was sent, so there was no way.
        if self.plays {
            return None;
        }
        // The one who failed last is the last there was, unless the failure names another.
        let named = models.iter().rev().find(|name| failed.message.contains(name.as_str()));
        let (provider, _) = named.or(models.last())?.split_once('/')?;
        let way = self.ways.get(provider)?;
        match failed.code.as_str() {
            "auth" => Some(match &way.key {
                Some(from) => format!("the key that was sent is from {}", text::show_line(from)),
                None => {
                    format!("no key was sent: {}", no_key_hint(provider, self.variable(provider)))
                }
            }),
            "network" => way.hint(provider),
            _ => None,
        }
    }
}

impl ProviderRoute {
    /// What to look at where nobody answers.
    fn hint(&self, provider: &str) -> Option<String> {
        let running = (provider == LOCAL).then(|| "is Ollama running?".to_owned());
        let address = self.address.as_ref().map(|from| format!("the address is from {from}"));
        let proxy = self.proxy.as_ref().map(|proxy| format!("the way leads by {proxy}"));
        let both: Vec<_> = [address, proxy].into_iter().flatten().collect();
        let both = Some(both.join("; ")).filter(|both| !both.is_empty());
        let all: Vec<_> = [running, both].into_iter().flatten().collect();
        Some(all.join(" ")).filter(|all| !all.is_empty())
    }
}
