//! The registration of external hooks ([`ExternalHook`]).
//!
//! A hook gets the highest power that its point, its owner and its own entry allow. A hook that may change
//! something is registered twice under its name: as a transform, which runs concurrently with adjacent
//! external transforms, and as a gate on the result of all transforms.

use std::sync::Arc;

use crate::{
    hooks::{
        external::{
            ExternalHook, ExternalHookSpec, binding::ExternalBinding, per_point::ExternalPoint,
        },
        handler::HandlerOptions,
        points::{self, PointId},
    },
    permission::{
        origin::{Origin, Owner},
        verdict::Power,
    },
    registry::Registry,
};

impl Registry {
    /// Registers an external hook at a point.
    pub fn outside(
        &mut self,
        point: PointId,
        declared: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(
            point,
            RegisterVisitor { unit: self, declared, hook, is_second_handler: false },
        );
        self
    }

    /// Registers another handler of a hook, under the name that the hook already has.
    pub(crate) fn register_another_point(
        &mut self,
        point: PointId,
        declared: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(
            point,
            RegisterVisitor { unit: self, declared, hook, is_second_handler: true },
        );
        self
    }
}

struct RegisterVisitor<'a> {
    unit: &'a mut Registry,
    declared: ExternalHookSpec,
    hook: Arc<dyn ExternalHook>,
    /// True if the name already belongs to another handler of this hook.
    is_second_handler: bool,
}

impl points::PointVisitor for RegisterVisitor<'_> {
    type Out = ();

    fn at<P: ExternalPoint>(self) {
        let RegisterVisitor { unit, mut declared, hook, is_second_handler: second } = self;
        let name = declared.name.clone().unwrap_or_else(|| P::ID.name().into());
        if P::ID == PointId::Context {
            let message = format!("hook `{name}`: `context` is for hooks in Rust and for scripts");
            return unit.fail(message, None);
        }
        // The transform and the gate have the same name.
        declared.name = Some(name.clone());
        let most = match declared.detached {
            true => Power::Observe,
            false => declared.power.unwrap_or(Power::Answer),
        };
        let owner = unit.owner.clone();
        let may =
            |power: Power| power <= most && P::ID.row().powers.contains(&power) && owner.may(power);
        let hindrance = (!may(Power::Transform)).then(|| explain_no_transform(&owner, most));
        let may_change = hindrance.is_none();
        let judges = may(Power::Gate);
        let asker = ExternalBinding::<P>::new(name, hook, hindrance, judges);
        let options = HandlerOptions { second, ..declared.options() };
        if may(Power::Answer) {
            return unit.bind_answer::<P>(options, asker.make_answer_handler());
        }
        if may_change {
            unit.bind_transform::<P>(
                HandlerOptions { is_concurrent: true, ..options.clone() },
                asker.make_transform(),
            );
            if judges {
                let second = HandlerOptions { second: true, quiet: true, ..options };
                unit.bind_gate::<P>(second, asker.judges());
            }
            return;
        }
        match judges {
            true => unit.bind_gate::<P>(options, asker.judges()),
            false => unit.bind_observer::<P>(
                HandlerOptions { detached: declared.detached, ..options },
                asker.make_observer(),
            ),
        }
    }
}

/// Returns the reason why a hook may not change anything.
fn explain_no_transform(owner: &Owner, most: Power) -> &'static str {
    match &owner.origin {
        _ if most < Power::Transform => "its entry limits it to less",
        Origin::Profile(_) => "a profile's hooks never do",
        _ => "its owner was not granted `rewrite`",
    }
}
