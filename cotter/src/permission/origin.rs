//! The origin and the owner of a registration, and their rights.

use std::fmt;

use smol_str::SmolStr;

use crate::permission::verdict::Power;

/// The class of an owner. Chains run in the order of the variants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The built-in safety gates. No file can disable them.
    Kernel,
    /// The program that links the library.
    Embedder,
    /// The machine's operator.
    Operator,
    /// The person.
    User,
    /// The project's own files, after trust. May only tighten permissions.
    Project,
    /// A loaded space, by id. May only tighten permissions.
    Space(SmolStr),
    /// A portable profile, by name. Never transforms.
    Profile(SmolStr),
}

impl Origin {
    /// True if this origin may register a handler of that power without a further grant.
    pub fn may(&self, power: Power) -> bool {
        match self {
            Origin::Kernel | Origin::Embedder | Origin::Operator | Origin::User => true,
            Origin::Project | Origin::Space(_) | Origin::Profile(_) => {
                matches!(power, Power::Observe | Power::Gate)
            }
        }
    }

    /// True if this origin may loosen permissions: allow rules, a looser mode.
    pub fn may_loosen(&self) -> bool {
        matches!(self, Origin::Kernel | Origin::Embedder | Origin::Operator | Origin::User)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Kernel => f.write_str("kernel"),
            Origin::Embedder => f.write_str("embedder"),
            Origin::Operator => f.write_str("operator"),
            Origin::User => f.write_str("user"),
            Origin::Project => f.write_str("project"),
            Origin::Space(id) => write!(f, "space:{id}"),
            Origin::Profile(name) => write!(f, "profile:{name}"),
        }
    }
}

/// One unit of an origin: a file, a space, a profile, a program. It loads whole and unloads whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The origin of the owner.
    pub origin: Origin,
    /// The owner's name within the origin.
    pub unit: SmolStr,
    /// True if a person granted the power to transform. Always false for a profile.
    may_rewrite: bool,
}

impl Owner {
    /// Creates an owner without any grant.
    pub fn new(origin: Origin, unit: impl Into<SmolStr>) -> Self {
        Owner { origin, unit: unit.into(), may_rewrite: false }
    }

    /// The owner of the runtime's built-in gates and tools.
    pub(crate) fn kernel() -> Self {
        Owner::new(Origin::Kernel, "cotter")
    }

    /// The owner for registrations of the program that links the library.
    pub fn embedder() -> Self {
        Owner::new(Origin::Embedder, "program")
    }

    /// Grants the power to transform. A profile never gets it.
    pub fn with_rewrite(self) -> Self {
        let rewrite = !matches!(self.origin, Origin::Profile(_));
        Owner { may_rewrite: rewrite, ..self }
    }

    /// True if both are the same unit. Grants are ignored.
    pub fn is_same_unit(&self, other: &Owner) -> bool {
        (&self.origin, &self.unit) == (&other.origin, &other.unit)
    }

    /// True if this owner may register a handler of that power.
    pub fn may(&self, power: Power) -> bool {
        self.origin.may(power) || (self.may_rewrite && power == Power::Transform)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.origin, self.unit)
    }
}
