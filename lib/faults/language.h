// The language of rules: one a line, words separated by blanks, `#` before a comment.
//
//   drop rx opcode=send_only nth=3
//   delay 5ms tx peer=10.0.0.2 probability=0.01 seed=7
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "faults/rule.h"

namespace uroce::faults {

/// Errors: EINVAL naming the word and what may stand there.
Result<Rule> parse_rule(std::string_view line);
/// All rules of a text; lines without words are skipped. Errors: EINVAL naming `source`, the line, the word and what
/// may stand there.
Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view source);

}  // namespace uroce::faults
