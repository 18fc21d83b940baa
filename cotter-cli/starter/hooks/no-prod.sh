#!/bin/sh
# On standard input: the call, as one JSON object. Exit code 0 lets it pass. With any other code it is
# refused, and standard error is the reason, which the model is told.
#
# Refuses a call whose path or command names production: a part of a path that is `prod` or `production`,
# with or without an ending. `products` and the contents of files do not matter.
#
# The JSON is read by awk, which every system has. It is split at its quotes: texts and the signs between
# them take turns.
export LC_ALL=C
exec awk '
BEGIN { RS = "\"" }

# The signs between two texts: how deep the next text is, and whether it is a key.
function read_signs(signs,   i, sign) {
  for (i = 1; i <= length(signs); i++) {
    sign = substr(signs, i, 1)
    if (sign == "{") { is_object[++depth] = 1; is_key = 1 }
    if (sign == "[") { is_object[++depth] = 0; is_key = 0 }
    if (sign == "}" || sign == "]") { depth-- }
    if (sign == ",") { is_key = is_object[depth] }
    if (sign == ":") { is_key = 0 }
  }
}

# True if a part of a text names production, as a part of a path or before or after a dot. Letters are never
# written as escapes, so one that is counts as a name of production.
function names_production(text,   count, i, parts) {
  if (text ~ /\\u00[2-7]/) { return 1 }
  gsub(/\\[nrtbf]/, " ", text)
  count = split(tolower(text), parts, /[^a-z0-9_-]+/)
  for (i = 1; i <= count; i++) {
    if (parts[i] == "prod" || parts[i] == "production") { return 1 }
  }
  return 0
}

# Looks at a part of a text. A quote within a text ends a name too, so parts can be looked at one by one.
function read_part(part) {
  if (is_key) { key[depth] = key[depth] part; return }
  if (depth != 2 || key[1] != "toolInput") { return }
  seen = 1
  if (key[2] == "path" || key[2] == "command") { refused = refused || names_production(part) }
}

!in_text {
  read_signs($0)
  in_text = 1
  if (is_key) { key[depth] = "" }
  next
}

{
  read_part($0)
  # An odd number of backslashes before a quote: the quote is part of the text.
  in_text = match($0, /\\+$/) && RLENGTH % 2 == 1
}

END {
  if (refused) {
    print "this would change production; work on a copy instead" > "/dev/stderr"
    exit 1
  }
  if (!seen || depth != 0) {
    print "the call could not be read" > "/dev/stderr"
    exit 1
  }
}
'
