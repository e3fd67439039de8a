//! Names in scope, the names of output columns, and calls written as attributes.

pub(in crate::resolve) mod attribute_call;
pub(crate) mod output_name;
pub(crate) mod scope;
