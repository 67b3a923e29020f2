"""Which characters the bytes of MySQL's character sets are, where Python's codec of that name says something else.

Measured, not guessed: the tests compare every one- and two-byte sequence with what real servers return for it.
"""

from __future__ import annotations

from typing import Final

UNDEFINED: Final = "\ufffe"
"""The mark of a byte without a character in a table."""

SINGLE: Final[dict[str, tuple[str, dict[int, str]]]] = {
    "latin1": ("cp1252", {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859_2", {}),
    "latin5": ("iso8859_9", {}),
    "latin7": ("iso8859_13", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "ⁿ", 0xFD: "²"}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", {}),
    "cp1257": ("cp1257", {}),
    "koi8r": ("koi8_r", {}),
    "koi8u": ("koi8_u", {0x95: "•"}),
    "greek": ("iso8859_7", {0xA1: "ʽ", 0xA2: "ʼ"}),
    "hebrew": ("iso8859_8", {0xAF: "‾"}),
    "tis620": ("iso8859_11", {}),
    "hp8": ("hp_roman8", {}),
    "dec8": ("latin_1", {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"}),
    "swe7": ("ascii", dict(zip(b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True))),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
}
"""Python's codec, and the bytes that are another character. Where MySQL knows no character and Python does, Python's stays:
a value that MySQL prints as `?` keeps what it is.
"""

UPPER_HALF: Final[dict[str, str]] = {
    "armscii8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէ"
        "ԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշ"
        "ՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "geostd8": (
        "€\ufffe‚\ufffe„…†‡\ufffe‰\ufffe‹\ufffe\ufffe\ufffe\ufffe\ufffe‘’“”•–—\ufffe\ufffe\ufffe›\ufffe\ufffe\ufffe\ufffe"
        "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe№\ufffe\ufffe"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0"
    ),
}
"""The characters from 0x80 on, for sets Python does not know."""

_GB18030_2022 = bytes.fromhex("a8bc").decode("gb18030") == "ḿ"
"""The standard swapped these two in 2022, as MySQL has them; Python did so later."""

MULTI: Final[dict[str, tuple[str, dict[int, str]]]] = {
    "gbk": ("gbk", {}),
    "gb2312": ("gb2312", {}),
    "gb18030": ("gb18030", {} if _GB18030_2022 else {0xE7C7: "ḿ", 0x1E3F: "\ue7c7"}),
    "big5": ("big5", {}),
    "euckr": ("cp949", {}),
    "sjis": ("shift_jis", {0xFF3C: "\\"}),
    "cp932": ("cp932", {}),
    "ujis": ("euc_jp", {0xFF3C: "\\"}),
}
"""Python's codec, and the characters it gives that MySQL has as another one."""

UNITS: Final[dict[str, tuple[str, str]]] = {
    "ucs2": ("utf-16-be", ">u2"),
    "utf16": ("utf-16-be", ">u2"),
    "utf16le": ("utf-16-le", "<u2"),
    "utf32": ("utf-32-be", ">u4"),
}
"""Python's codec and the code unit of the sets that are Unicode in another form."""

UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
"""The sets whose bytes are UTF-8 as they are."""

BIG5_EXTRA: Final = dict(zip((bytes([0xF9, 0xD6 + rank]) for rank in range(7)), "碁銹裏墻恒粧嫺", strict=True))
"""The seven characters of the ETEN extension that MySQL has and Python's big5 lacks."""
