// What standard output can show.
#pragma once

#include "calyrex/text/render_view.h"

namespace calyrex::cli {

/// Colours on a terminal, unless NO_COLOR is set to something or TERM is dumb.
text::Colour output_colour();

}  // namespace calyrex::cli
