// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"

#include "engine/model/tokenizer.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

namespace kvloupe {

int tokenize_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--special", "--json"},
                                              {"--text", "--file"},
                                              1,
                                              1,
                                              "kvloupe tokenize MODEL (--text T | --file F) [--special] [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto text_option = arguments->value("--text");
    const auto file_option = arguments->value("--file");
    if (text_option.has_value() == file_option.has_value())
        return fail("tokenize takes either --text or --file", exit_usage);

    std::string text;
    if (text_option) {
        text = *text_option;
    } else {
        std::ifstream file(*file_option, std::ios::binary);
        if (!file) return fail("The file '" + *file_option + "' cannot be read. Check its name and its permissions.");
        text.assign(std::istreambuf_iterator<char>(file), {});
        if (file.bad()) return fail("Reading '" + *file_option + "' broke off.");
    }
    auto path = resolve_model(arguments->words()[0]);
    if (!path) return fail(path.error().message());
    auto tokenizer = load_tokenizer(*path);
    if (!tokenizer) return fail(tokenizer.error().message());

    const bool special = arguments->has("--special");
    const std::vector<TokenId> ids =
        special ? (*tokenizer)->encode_prompt(text, true) : (*tokenizer)->encode(text, false);
    if (arguments->has("--json")) {
        nlohmann::json document;
        document["ids"] = ids;
        document["pieces"] = nlohmann::json::array();
        for (TokenId id : ids) document["pieces"].push_back((*tokenizer)->shown(id));
        std::cout << document.dump() << '\n';
        return exit_done;
    }
    for (TokenId id : ids) std::cout << id << '\t' << (*tokenizer)->shown(id) << '\n';
    return exit_done;
}

}  // namespace kvloupe
