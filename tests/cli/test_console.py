"""Names are printed as they are."""

from rich.table import Table

from keras_albert.cli.console import plain_console


def test_names_are_not_markup(capsys):
    name = "runs/[red]/[/b] :cat:"
    table = Table("name")
    table.add_row(name)
    console = plain_console()
    console.print(name)
    console.print(table)
    assert capsys.readouterr().out.count(name) == 2
