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
    pub fn register_external(
        &mut self,
        point: PointId,
        spec: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(point, RegisterVisitor { unit: self, spec, hook, is_second_handler: false });
        self
    }

    /// Registers another handler of a hook, under the name that the hook already has.
    pub(crate) fn register_another_point(
        &mut self,
        point: PointId,
        spec: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(point, RegisterVisitor { unit: self, spec, hook, is_second_handler: true });
        self
    }
}

struct RegisterVisitor<'a> {
    unit: &'a mut Registry,
    spec: ExternalHookSpec,
    hook: Arc<dyn ExternalHook>,
    /// True if the name already belongs to another handler of this hook.
    is_second_handler: bool,
}

impl points::PointVisitor for RegisterVisitor<'_> {
    type Out = ();

    fn at<P: ExternalPoint>(self) {
        let RegisterVisitor { unit, mut spec, hook, is_second_handler } = self;
        let name = spec.name.clone().unwrap_or_else(|| P::ID.name().into());
        if P::ID == PointId::Context {
            let message =
                format!("hook `{name}`: only hooks in Rust and scripts can run at `context`");
            return unit.fail(message, None);
        }
        // The transform and the gate have the same name.
        spec.name = Some(name.clone());
        let max_power = match spec.detached {
            true => Power::Observe,
            false => spec.power.unwrap_or(Power::Answer),
        };
        let owner = unit.owner.clone();
        let may = |power: Power| {
            power <= max_power && P::ID.row().powers.contains(&power) && owner.may(power)
        };
        let change_refusal =
            (!may(Power::Transform)).then(|| explain_no_transform(&owner, max_power));
        let may_change = change_refusal.is_none();
        let is_gate = may(Power::Gate);
        let binding = ExternalBinding::<P>::new(name, hook, change_refusal, is_gate);
        let options = HandlerOptions { is_second_handler, ..spec.options() };
        if may(Power::Answer) {
            return unit.bind_answer::<P>(options, binding.make_answer_handler());
        }
        if may_change {
            unit.bind_transform::<P>(
                HandlerOptions { is_concurrent: true, ..options.clone() },
                binding.make_transform(),
            );
            if is_gate {
                let gate_options =
                    HandlerOptions { is_second_handler: true, quiet: true, ..options };
                unit.bind_gate::<P>(gate_options, binding.make_gate());
            }
            return;
        }
        match is_gate {
            true => unit.bind_gate::<P>(options, binding.make_gate()),
            false => unit.bind_observer::<P>(
                HandlerOptions { detached: spec.detached, ..options },
                binding.make_observer(),
            ),
        }
    }
}

/// Returns the reason why a hook may not change anything.
fn explain_no_transform(owner: &Owner, max_power: Power) -> &'static str {
    match &owner.origin {
        _ if max_power < Power::Transform => "its entry sets a lower power",
        Origin::Profile(_) => "it belongs to a profile",
        _ => "its owner was not granted `rewrite`",
    }
}
