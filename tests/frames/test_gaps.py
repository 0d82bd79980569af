def test_a_value_with_gaps_is_tied_where_it_stands():
    """A birth year on two of three visits is one unknown; filled with 1950 it must not look like two values."""
    born = np.repeat(RNG.integers(1930, 1990, N // 3).astype(float), 3)
    gapped = np.where(np.arange(N) % 3 == 1, np.nan, born)
    frame = pd.DataFrame({"who": np.arange(N) // 3, "born": gapped, "bmi": FRAME["bmi"], "y": Y})
    table = Table.of(frame, text=["who"], missing="impute", impute={"born": 1950})
    leak = fit_table(table, "y", noise=NOISE, person="who").leakage
    assert leak.tied == ("born",)
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=1950.0), StandardScaler(), Ridge(alpha=1.0))
    theirs = dm.measure(
        model.fit(frame[["born", "bmi"]], Y), frame[["born", "bmi"]], Y, person=frame["who"], noise=NOISE
    )
    assert theirs.tied == ("born",)
