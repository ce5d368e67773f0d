from datetime import timedelta


def test_a_subscriber_hears_of_an_event_once_it_can_be_read(store):
    heard = []
    store.events.subscribe(lambda event: heard.append((event, store.events.since(event.id - 1, 1))))
    event = store.events.append("t", "digits", {"n": 1})
    store.events.append("u", None, {})
    assert heard[0] == (event, [event])
    assert event.data == {"n": 1}


def test_a_broken_subscriber_harms_nobody(store, caplog):
    heard = []
    store.events.subscribe(lambda _: 1 / 0)
    store.events.subscribe(heard.append)
    store.events.append("t", None, {})
    store.events.append("t", None, {})
    assert [event.id for event in heard][:1] == [1]
    assert "subscriber_failed" in caplog.text


def test_ids_are_not_used_again_after_pruning(store):
    for _ in range(5):
        store.events.append("t", None, {})
    assert store.history.prune(timedelta(days=1), events_kept=2) == 3
    assert [event.id for event in store.events.since(0, 10)] == [4, 5]
    assert store.history.prune(timedelta(days=1), events_kept=0) == 2
    assert store.events.last_id() == 5
    assert store.events.append("t", None, {}).id == 6


def test_pages_of_events_follow_each_other(store):
    for _ in range(5):
        store.events.append("t", None, {})
    first = store.events.since(0, 3)
    assert [event.id for event in store.events.since(first[-1].id, 3)] == [4, 5]


def test_the_newest_are_listed_by_type_and_model_page_by_page(store):
    for kind, model in (("job.a", "x"), ("jobs", "x"), ("job.b", "y"), ("model.%", None)):
        store.events.append(kind, model, {})

    def ids(**where):
        return [event.id for event in store.events.newest(limit=10, **where)]

    assert ids() == [4, 3, 2, 1]
    assert ids(types=["job."]) == [3, 1]
    assert ids(types=["job.b", "model."]) == [4, 3]
    assert ids(types=["%"]) == []
    assert ids(models={"x"}) == [2, 1]
    assert ids(models=[]) == []
    assert ids(models=["x"], types=["job."], before=3) == [1]
    assert [event.id for event in store.events.newest(limit=2, before=4)] == [3, 2]
