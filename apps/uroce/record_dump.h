// uroce record dump: a recording as text, or its frames as a capture.
#pragma once

#include <string>
#include <string_view>

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Errors: EINVAL: the file is no recording, or has been changed; those of writing a capture.
Result<void> run_record_dump(const Options& options);

/// The text in quotes for JSON. Characters that would need an escape are '?'.
std::string json_text(std::string_view text);

}  // namespace uroce::cli
