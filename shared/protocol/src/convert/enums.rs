//! Enumerations of the wire and their counterparts.

use std::fmt;

use specfleet_speculation::{propose::Rule, round::Origin};

use super::Error;
use crate::v1;

/// How a draft writes down what it drew from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DistributionForm {
    /// Integer weights over a support of bounded size: a few hundred bytes a token.
    #[default]
    Sparse,
    /// An `f32` for each id that draft and target share.
    Dense,
}

impl fmt::Display for DistributionForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sparse => "sparse",
            Self::Dense => "dense",
        })
    }
}

impl From<DistributionForm> for v1::DistributionForm {
    fn from(form: DistributionForm) -> Self {
        match form {
            DistributionForm::Sparse => Self::Sparse,
            DistributionForm::Dense => Self::Dense,
        }
    }
}

impl TryFrom<v1::DistributionForm> for DistributionForm {
    type Error = Error;

    fn try_from(form: v1::DistributionForm) -> Result<Self, Error> {
        match form {
            v1::DistributionForm::Sparse => Ok(Self::Sparse),
            v1::DistributionForm::Dense => Ok(Self::Dense),
            v1::DistributionForm::Unspecified => {
                Err(Error::UnknownValue { field: "settings.form", value: form.into() })
            }
        }
    }
}

impl From<Rule> for v1::AcceptanceRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Standard => Self::Standard,
            Rule::DraftInvariant => Self::DraftInvariant,
        }
    }
}

/// Reads an acceptance rule from the wire number of `field`; `None` where it is unspecified and the receiver chooses.
pub fn acceptance_rule(field: &'static str, value: i32) -> Result<Option<Rule>, Error> {
    match v1::AcceptanceRule::try_from(value) {
        Ok(v1::AcceptanceRule::Unspecified) => Ok(None),
        Ok(v1::AcceptanceRule::Standard) => Ok(Some(Rule::Standard)),
        Ok(v1::AcceptanceRule::DraftInvariant) => Ok(Some(Rule::DraftInvariant)),
        Err(_) => Err(Error::UnknownValue { field, value }),
    }
}

impl From<Origin> for v1::TokenOrigin {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Accepted => Self::Accepted,
            Origin::Corrected => Self::Corrected,
            Origin::Bonus => Self::Bonus,
            Origin::Plain => Self::Plain,
        }
    }
}
