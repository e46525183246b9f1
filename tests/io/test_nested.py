from mmseg_reservoir.io.nested import differences, flatten


def test_nested_values_are_flattened_by_dotted_keys():
    assert flatten({"a": {"b": 1, "c": {}}, "d": [2, {"e": None}]}) == {
        "a.b": 1,
        "d.0": 2,
        "d.1.e": None,
    }


def test_differences_are_in_the_order_of_the_keys():
    one, other = {"a": 1, "b": 2, "c": 3}, {"d": 4, "a": 1, "b": 5}
    assert list(differences(one, other)) == [("b", 2, 5), ("c", 3, None), ("d", None, 4)]
    assert list(differences(one, dict(reversed(one.items())))) == []
    nested = list(differences({"a": {"b": [1], "c": {}}}, {"a": {"b": [2]}}))
    assert nested == [("a.b", [1], [2]), ("a.c", {}, None)]
