use crate::rewrite::Halving;

/// Fifths are drawn in three rounds: 0.6 first, then 0.4 of what is below it (two thirds) and 0.8
/// of what is above (one half), then 0.2 below 0.4 (one half).
#[test]
fn ranks_are_off_by_their_own_draw_and_by_the_parts_ends() {
    let reach = Halving::reach(&[200_000, 400_000, 600_000, 800_000]);
    let (sixth, third) = (1.2, 4.0 / 3.0 + 1.2 * 2.0 / 3.0);
    let wanted = [1.0 + third / 2.0, third, sixth, 1.0 + sixth / 2.0];
    assert!(
        reach
            .iter()
            .zip(wanted)
            .all(|(found, wanted)| (found - wanted).abs() < 1e-9),
        "{reach:?}"
    );
    // Alone it is the draw's own.
    assert_eq!(Halving::reach(&[250_000]), [1.5]);
    assert!(Halving::reach(&[]).is_empty());
}
