"""Texts that are hard to tokenise, and the corpus that the small tokenizers are trained on."""

HARD_TEXTS = [
    "",
    " ",
    "   \n\n  \t\t x  \r\n y \u00a0z\u3000w\u2003v",
    "Hello world! It's 2026; they'll say I'VE, you'd, we'RE, don't, o'clock ''quoted''.",
    "0 1 12 123 1234 12345678901234567890 3.14159 1,000,000 -5e-10 0x1F \u0661\u0662\u0663 \u00bd\u00b2\u2167 7\u20e3",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3001\u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57\u3002\u5168\u89d2\uff11\uff12\uff13\uff01",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \uc548\ub155\ud558\uc138\uc694 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1ef\U0001f1f5 \U0001f44d\U0001f3fd \u2764\ufe0f end",
    "cafe\u0301 caf\u00e9 A\u030angstro\u0308m \u1e9b\u0323 \ufb01n \u212b \u03a9\u2126",
    "def f(x):\n    if x == 0:\n\treturn {'a': [1, 2], \"b\": None}  # comment\n\n\nfor (int i=0; i<10; ++i) { y += x[i]*2; }\n",
    "a" * 180,
    "ab" * 60 + " " * 40 + "." * 40 + "\n" * 17,
    "zero\x00byte bell\x07 esc\x1b del\x7f nel\x85 zwsp\u200bbom\ufeff pua\ue000 repl\ufffd",
    "\u00fcber Stra\u00dfe \u0130stanbul \u01c5 \ud7a3 \U00020bb7 \U0001d400\U0001d7ce \U0010ffff",
    "https://example.org/a?b=c&d=%20#e <b>bold</b> [link](x_y__z) $5+3=8^2~|x| `code` \\n",
    "  leading and trailing  ",
    "\nline\n",
    "\u2581already \u2581\u2581metaspace",
    "She said: \u201cIt\u2019s fine\u201d \u2014 \u2026 \u20ac5 \u00a37 \u00a5900 n\u00b03",
    "1st 2nd 3a b4 c5d 6e7 x1y2 v1.2.3-rc4 2026-11-29T17:05:00Z",
    "CamelCaseWord snake_case_word SCREAMING_CASE kebab-case-word don\u2019t",
    "tab\tseparated\tvalues\t\n\r\n\rmixed\rline\nends\r\n\r\n",
]

CORPUS = HARD_TEXTS + [
    "You are a helpful assistant. Answer in one sentence. The user asks and the assistant answers.",
    "system user assistant tool message content role function name arguments parameters description",
    "Write the answer in capital letters. Do not use commas. Begin with the word hello and end with the word bye.",
    "What is the capital of France? The capital of France is Paris. What is two plus three? Five.",
    "the quick brown fox jumps over the lazy dog while the other dogs were sleeping in the garden",
    "I'm sure it's what they're saying; we've said that you'd better go, and he'll see.",
    "\u79c1\u306f\u65e5\u672c\u8a9e\u3092\u8a71\u3057\u307e\u3059\u3002\u3053\u308c\u306f\u6587\u7ae0\u3067\u3059\u3002",
]
