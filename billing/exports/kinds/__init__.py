"""What can be exported, a module a kind: its columns, its versions and where its rows come from."""
