// What a plan file holds, for people and as JSON: the texts of `m3c inspect`, `explain`, `diff`.
#pragma once

#include "runtime/plan/PlanFile.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace m3c {

struct InspectDetail {
  bool sections = false, weights = false, launches = false;
};

/// The manifest as JSON. Throws Error when it is no JSON object.
nlohmann::ordered_json manifestOf(const plan::PlanFile &file);

/// Everything that `inspect` shows. `detail` adds long lists.
nlohmann::ordered_json inspectJson(const plan::PlanFile &file, const InspectDetail &detail);
/// The same as text, from `inspectJson`.
std::string inspectText(const nlohmann::ordered_json &inspected);

/// The tables as JSON, complete: what `extract` writes as tables.json and `diff` compares.
nlohmann::ordered_json tablesJson(const plan::PlanFile &file);

/// Why the plan is as it is: decisions of the compiler with their reasons, then kernel by kernel
/// its family, schedule and where it is launched. `kernel` narrows to one name, "" = all; an
/// unknown name throws Error with the nearest ones.
nlohmann::ordered_json explainJson(const plan::PlanFile &file, const std::string &kernel);
std::string explainText(const nlohmann::ordered_json &explained);

/// Differences as {path, left, right} in the order of the tables; empty when the plans say the
/// same. Sections are compared by digest.
nlohmann::ordered_json diffPlans(const plan::PlanFile &left, const plan::PlanFile &right);

/// What a code object (of `tablesJson`) takes: "12.3 KiB, 90 registers, 64 bytes spilled".
std::string codeText(const nlohmann::ordered_json &object);

} // namespace m3c
