mod postgres;
mod shadow;
