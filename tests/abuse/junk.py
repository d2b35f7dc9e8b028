"""What people, scripts and attackers send instead of what a field expects."""

LONG = "算" * 10_000
VALUES = {
    "empty": "",
    "blank": " \t\n ",
    "zero": "0",
    "negative": "-1",
    "float": "1.5",
    "exponent": "1e9",
    "billion": "1000000000",
    "beyond bigint": "9" * 30,
    "beyond int": "9" * 5000,
    "nan": "NaN",
    "infinity": "-Infinity",
    "full-width digits": "１２",
    "nul": "a\x00b",
    "lone surrogate": "\ud800",
    "emoji": "🚀🧑‍🚀",
    "right to left": "\u202egnp.exe",
    "script": "<script>alert(1)</script>",
    "quote": "' OR 1=1 --",
    "formula": '=HYPERLINK("http://x","y")',
    "format": "%s %(x)s {0} {{ 7|add:1 }}",
    "header": "a\r\nBcc: x@example.com",
    "path": "../../../../etc/passwd",
    "uuid of nothing": "00000000-0000-0000-0000-000000000000",
    "long": LONG,
}
# A browser cannot send half a surrogate pair in a form; in an address it becomes a replacement sign.
UNSENDABLE = {"lone surrogate"}
