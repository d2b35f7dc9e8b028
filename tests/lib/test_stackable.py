"""Cells of a table know the name of their column, as far as there is one to be seen."""

from marketplace.lib.stackable import stackable

TABLE = (
    '<thead><tr><th scope="col">Number</th><th scope="col" class="number">Total <b>"net"</b></th>'
    '<th scope="col"><span class="visually-hidden">Pay</span></th></tr></thead>'
    '<tbody><tr><th scope="row">INV-1</th><td class="number">¥2.00</td><td><a href="/">Pay</a></td></tr></tbody>'
    '<tfoot><tr><th scope="row" colspan="1">Sum</th><td colspan="2">¥2.00</td></tr></tfoot>'
)


def test_cells_carry_their_columns_names_and_every_part_its_role():
    assert stackable(TABLE) == (
        '<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Number</th>'
        '<th scope="col" class="number" role="columnheader">Total <b>"net"</b></th>'
        '<th scope="col" role="columnheader"><span class="visually-hidden">Pay</span></th></tr></thead>'
        '<tbody role="rowgroup"><tr role="row"><th scope="row" role="rowheader" data-label="Number">INV-1</th>'
        '<td class="number" role="cell" data-label="Total &quot;net&quot;">¥2.00</td>'
        '<td role="cell"><a href="/">Pay</a></td></tr></tbody>'
        '<tfoot role="rowgroup"><tr role="row">'
        '<th scope="row" colspan="1" role="rowheader" data-label="Number">Sum</th>'
        '<td colspan="2" role="cell" data-label="Total &quot;net&quot;">¥2.00</td></tr></tfoot>'
    )


def test_a_span_moves_the_later_cells_to_their_own_columns():
    rows = '<thead><tr><th scope="col">A</th><th scope="col">B</th><th scope="col">C</th></tr></thead>'
    rows += '<tfoot><tr><th scope="row" colspan="2">Sum</th><td>1</td></tr></tfoot>'

    assert '<td role="cell" data-label="C">1</td>' in stackable(rows)
