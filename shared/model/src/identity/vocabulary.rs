//! Vocabularies in digests, and when two of them fit together.

use sha2::{Digest, Sha256};
use specfleet_speculation::TokenId;

use super::hex;
use crate::tokenizer::Tokenizer;

/// A vocabulary in digests: enough to compare it, and to name the first token that differs, without sending it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VocabularyFingerprint {
    /// SHA-256 over every id's bytes and special flag, and the special roles; hexadecimal.
    pub fingerprint: String,
    /// One more than the highest id that the model's rows speak for. Zero for a drafter that knows no vocabulary.
    pub size: u32,
    /// For each id, 32 bits of a digest of its bytes and special flag; 0 where the id spells nothing (padding). Empty
    /// where a peer was not asked for them.
    pub token_digests: Vec<u32>,
    /// Ids that end a text, ascending.
    pub end_tokens: Vec<TokenId>,
    /// The id that begins a text.
    pub begin_token: Option<TokenId>,
}

/// Whose vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The model that decides.
    Target,
    /// The model that proposes.
    Draft,
}

/// Why a draft cannot work for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// An id means different things to them.
    #[error(
        "the vocabularies differ at token {token}: the target spells {target}, the draft spells {draft}; \
         use a draft with the target's tokenizer"
    )]
    Token {
        /// The first id that differs.
        token: TokenId,
        /// The target's side: its digest, and its bytes where they are known.
        target: String,
        /// The draft's side.
        draft: String,
    },
    /// They end texts by different ids.
    #[error(
        "the target ends texts by {target:?}, the draft by {draft:?}, which have no id in common; \
         set eos_token_id in the draft's generation_config.json"
    )]
    EndTokens {
        /// The target's ids.
        target: Vec<TokenId>,
        /// The draft's ids.
        draft: Vec<TokenId>,
    },
    /// They begin texts by different ids.
    #[error(
        "the target begins texts by {target}, the draft by {draft}; \
         set bos_token_id in the draft's generation_config.json"
    )]
    BeginToken {
        /// The target's id.
        target: TokenId,
        /// The draft's id.
        draft: TokenId,
    },
    /// The fingerprints differ and one side's digests are not at hand.
    #[error(
        "the vocabularies differ (target {target}, draft {draft}), and without both sides' token digests \
         it cannot be told where; ask for the identity with token digests"
    )]
    Unexplained {
        /// The target's fingerprint.
        target: String,
        /// The draft's fingerprint.
        draft: String,
    },
}

impl VocabularyFingerprint {
    /// Of a model with `size` rows and this tokenizer.
    pub fn new(tokenizer: &Tokenizer, size: usize) -> Self {
        let mut hasher = Sha256::new();
        let mut token_digests = Vec::with_capacity(size);
        for id in (0..).take(tokenizer.vocab_size().min(size)) {
            let digest = tokenizer.spelling(id).map(|spelling| token_digest(spelling, tokenizer.is_special(id)));
            hasher.update(digest.unwrap_or_default());
            token_digests.push(digest.as_ref().map_or(0, short));
        }
        // Rows beyond the tokenizer are padding; the fingerprint does not know how many there are.
        token_digests.resize(size, 0);
        let mut fingerprint = Self {
            fingerprint: String::new(),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            token_digests,
            end_tokens: tokenizer.end_tokens().to_vec(),
            begin_token: tokenizer.begin_token(),
        };
        hasher.update(fingerprint.roles());
        fingerprint.fingerprint = hex(&hasher.finalize());
        fingerprint
    }

    /// Of a drafter that knows no vocabulary, such as prompt lookup. It fits every target.
    pub fn none() -> Self {
        let fingerprint = hex(&Sha256::digest(b"no vocabulary"));
        Self { fingerprint, size: 0, token_digests: Vec::new(), end_tokens: Vec::new(), begin_token: None }
    }

    fn roles(&self) -> Vec<u8> {
        format!("end {:?} begin {:?}", self.end_tokens, self.begin_token).into_bytes()
    }
}

/// Checks that every id that both know spells the same and is special to both or neither, and that the special roles
/// agree: a common end token, the same begin token, as far as both have any. Padding may differ, and the draft may know
/// fewer ids; the target's probability for those it does not know is the draft's loss, not an error.
///
/// # Errors
/// [`Incompatible`] names the first difference and both sides of it.
pub fn check_compatible(target: &VocabularyFingerprint, draft: &VocabularyFingerprint) -> Result<(), Incompatible> {
    if draft.size == 0 || target.fingerprint == draft.fingerprint {
        return Ok(());
    }
    if target.token_digests.is_empty() || draft.token_digests.is_empty() {
        return Err(Incompatible::Unexplained { target: target.fingerprint.clone(), draft: draft.fingerprint.clone() });
    }
    let pairs = (0..).zip(target.token_digests.iter().zip(&draft.token_digests));
    for (token, (target, draft)) in pairs {
        if target != draft && *target != 0 && *draft != 0 {
            let side = |digest: &u32| format!("something with digest {digest:08x}");
            return Err(Incompatible::Token { token, target: side(target), draft: side(draft) });
        }
    }
    check_roles(target, draft)
}

fn check_roles(target: &VocabularyFingerprint, draft: &VocabularyFingerprint) -> Result<(), Incompatible> {
    let both_end = !target.end_tokens.is_empty() && !draft.end_tokens.is_empty();
    if both_end && !target.end_tokens.iter().any(|id| draft.end_tokens.contains(id)) {
        return Err(Incompatible::EndTokens { target: target.end_tokens.clone(), draft: draft.end_tokens.clone() });
    }
    match (target.begin_token, draft.begin_token) {
        (Some(target), Some(draft)) if target != draft => Err(Incompatible::BeginToken { target, draft }),
        _ => Ok(()),
    }
}

impl Incompatible {
    /// Puts the bytes of the differing token into the message, for the side whose tokenizer is at hand.
    #[must_use]
    pub fn with_spelling(mut self, side: Side, tokenizer: &Tokenizer) -> Self {
        if let Self::Token { token, target, draft } = &mut self {
            let text = match side {
                Side::Target => target,
                Side::Draft => draft,
            };
            if let Some(spelling) = tokenizer.spelling(*token) {
                let kind = if tokenizer.is_special(*token) { "special " } else { "" };
                *text = format!("{kind}{:?}", String::from_utf8_lossy(spelling));
            }
        }
        self
    }
}

/// Over the special flag and the bytes.
fn token_digest(spelling: &[u8], is_special: bool) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update([u8::from(is_special)]);
    hasher.update(spelling);
    hasher.finalize().into()
}

/// The first 32 bits; never 0, which stands for "spells nothing".
fn short(digest: &[u8; 32]) -> u32 {
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]).max(1)
}
