//! Counts and sums as one noisy vector: coordinates, fixed-point encoding, clipping and
//! sensitivity.

pub(in crate::rewrite) mod base_rows;
pub(in crate::rewrite) mod binned;
pub(in crate::rewrite) mod bins;
pub(in crate::rewrite) mod blocks;
pub(in crate::rewrite) mod clip;
pub(in crate::rewrite) mod clipped_aggregate;
mod computed_once;
pub(in crate::rewrite) mod coordinate;
pub(in crate::rewrite) mod coordinate_id;
pub(in crate::rewrite) mod coordinates;
pub(in crate::rewrite) mod fixed_point;
pub(in crate::rewrite) mod grouping_sets;
pub(in crate::rewrite) mod kept_groups;
pub(in crate::rewrite) mod listed_groups;
pub(in crate::rewrite) mod rotation;
pub(in crate::rewrite) mod row_integer;
pub(in crate::rewrite) mod row_lengths;
pub(in crate::rewrite) mod sensitivity;
pub(in crate::rewrite) mod standard_deviation;
mod streamed;
mod unit_norm;
