#!/usr/bin/env python3
"""Writes the forwarders of the fake ORT: one function for each slot of ORT's tables that abi/ declares, from the recorded facts.

usage: forward.py slots FUNCTIONS.tsv       the numbers and names of the slots, as a header
       forward.py functions FUNCTIONS.tsv   the forwarders, and fake__fill and fake__fill_interop, which put them into tables
"""
import csv
import re
import sys

# What cannot be told from a signature.
BY_HAND = {"GetModelEditorApi", "GetEpApi", "GetInteropApi", "EpDevice_EpName"}  # fake_ort.c: it lends tables of its own, and renames EPs
LEFT = {"CreateStatus"}  # what it returns is no failure; the library has no use for it
BORROWED = {"GetAllocatorWithDefaultOptions", "GetSharedAllocator", "CreateSharedAllocator"}  # nothing that a caller gives back
MADE = {
    "Run": "for (size_t i = 0; i < output_names_len; i++) { fake__made(KIND_OrtValue, outputs[i]); } "
           "for (size_t i = 0; i < given; i++) { fake__gone(KIND_OrtValue, outputs); }",
    "GetBoundOutputValues": "fake__made(KIND_memory, *output); "
                            "for (size_t i = 0; i < *output_count; i++) { fake__made(KIND_OrtValue, (*output)[i]); }",
    "ModelMetadataGetCustomMetadataMapKeys": "if (*keys != NULL) { fake__made(KIND_memory, *keys); } "
                                             "for (int64_t i = 0; i < *num_keys; i++) { fake__made(KIND_memory, (*keys)[i]); }",
    "RegisterExecutionProviderLibrary": "fake__made(KIND_library, registration_name);",
}
# What is to be known of before: outputs that the caller has made.
BEFORE = {"Run": "size_t given = 0; for (size_t i = 0; i < output_names_len; i++) { given += outputs[i] != NULL; }"}
# These give something back. One that is to fail does so all the same, or the fake would be the leak.
GONE = {
    "AllocatorFree": "fake__gone(KIND_memory, p);",
    "UnregisterExecutionProviderLibrary": "fake__gone(KIND_library, registration_name);",
}
# What one of ORT's own failures leaves behind: a binding in which the next input that is bound fails, too.
AFTER = {"BindInput": 'fake__real->ReleaseStatus(fake__real->BindInput(binding_ptr, "no such input", val_ptr));'}
# What a call does that is to hand out less than all, where that is not NULL: outputs without elements.
LESS = {"Run": "status = fake__leave(fake__real->Run(session, run_options, input_names, inputs, input_len, output_names, output_names_len, "
               "outputs)); "
               "for (size_t i = 0; status == NULL && given == 0 && i < output_names_len; i++) { fake__empty(&outputs[i]); }"}
# The tables whose functions are forwarded, and where the real ones are.
TABLES = {"OrtApi": "fake__real", "OrtInteropApi": "fake__real->GetInteropApi()"}
# Calls of the EP's own objects, which fake_ort.c stands in front of.
OBJECTS = {"OrtSyncStreamImpl": ["CreateNotification"],
           "OrtSyncNotificationImpl": ["Activate", "WaitOnDevice", "WaitOnHost"],
           "OrtEpApi": ["SyncStream_GetImpl"],
           "OrtModelEditorApi": ["SessionGetOpsetForDomain"],
           "OrtApiBase": ["GetApi", "GetVersionString"]}


class Slot:
    def __init__(self, row):
        self.table, self.name, self.returns = row["table"], row["name"], row["returns"]
        self.parameters = [self.parameter(text) for text in row["parameters"].split(", ") if text]
        self.names = [re.search(r"(\w+)(\[\])?$", text)[1] for text in self.parameters]
        self.is_status = self.returns == "struct OrtStatus *"
        self.is_pointer = self.returns.endswith("*") and not self.is_status

    @staticmethod
    def parameter(text):
        text = re.sub(r"^(.*)\[\] (\w+)$", r"\1\2[]", text.replace("ORTCHAR_T", "ort_char"))
        return text

    @property
    def out(self):
        """The name of the last parameter where it receives a pointer, and the type that it points to."""
        found = re.fullmatch(r"([\w ]+?) \*\* (\w+)", self.parameters[-1]) if self.parameters else None
        return (found[2], found[1]) if found else (None, None)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [Slot(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def kinds(slots):
    """The objects that somebody gives back: those that the table has a Release for."""
    released = [re.sub(r"^Release", "", slot.name) for slot in slots if re.match(r"Release[A-Z]", slot.name)]
    return sorted({name if name.startswith("Ort") else f"Ort{name}" for name in released})


def of_interest(slots):
    own = [slot for slot in slots if slot.table in TABLES and slot.name not in LEFT]
    return own, [slot for slot in slots if slot.name in OBJECTS.get(slot.table, [])]


def print_slots(slots):
    own, objects = of_interest(slots)
    print("/* Written by forward.py. */")
    print("#define FAKE__SLOTS(XX) \\")
    print(" \\\n".join(f"  XX({slot.name}, {'STATUS' if slot.is_status else 'POINTER' if slot.is_pointer else 'PLAIN'}, "
                        f"{int(slot.is_status and slot.out[0] is not None)})" for slot in own + objects))
    print("#define FAKE__KINDS(XX) \\")
    print(" \\\n".join(f"  XX({kind})" for kind in [*kinds(own), "notification", "memory", "library"]))


def made(slot, known):
    if slot.name in MADE:
        return MADE[slot.name]
    name, kind = slot.out
    if slot.name in BORROWED or name is None:
        return ""
    if kind == "char" and any("OrtAllocator" in text for text in slot.parameters):
        return f"fake__made(KIND_memory, *{name});"
    return f"fake__made(KIND_{kind}, *{name});" if kind in known else ""


def print_function(slot, known):
    arguments = ", ".join(slot.names)
    call = f"{TABLES[slot.table]}->{slot.name}({arguments})"
    print(f"static {slot.returns} ORT_CALL {slot.name}({', '.join(slot.parameters) or 'void'}) {{")
    if slot.is_status:
        if slot.name in BEFORE:
            print(f"  {BEFORE[slot.name]}")
        print(f"  OrtStatus *status = NULL;\n  if (fake__enter(SLOT_{slot.name}, &status)) {{")
        print(f"    status = fake__leave({call});")
        if made(slot, known):
            print(f"    if (status == NULL) {{ {made(slot, known)} }}")
        if slot.name in GONE:
            print(f"    {GONE[slot.name]}\n  }} else {{\n    fake__real->ReleaseStatus({call});\n    {GONE[slot.name]}")
        elif slot.name in AFTER:
            print(f"  }} else {{\n    {AFTER[slot.name]}")
        elif slot.name in LESS:
            print(f"  }} else if (status == NULL) {{\n    {LESS[slot.name]}\n    if (status == NULL) {{ {made(slot, known)} }}")
        elif slot.out[0] is not None:
            print(f"  }} else if (status == NULL) {{\n    *{slot.out[0]} = NULL;")
        print("  }\n  return status;")
    elif slot.is_pointer:
        print(f"  return fake__enter(SLOT_{slot.name}, NULL) ? {call} : NULL;")
    else:
        print(f"  (void)fake__enter(SLOT_{slot.name}, NULL);")
        if slot.name.startswith("Release"):
            kind = slot.name[len("Release"):]
            print(f"  fake__gone(KIND_{kind if kind.startswith('Ort') else 'Ort' + kind}, {slot.names[0]});")
        print(f"  {'' if slot.returns == 'void' else 'return '}{call};")
        if slot.name == "CreateKeyValuePairs":
            print(f"  {made(slot, known)}")
    print("}\n")


def print_functions(slots):
    own, _ = of_interest(slots)
    known = kinds(own)
    print('/* Written by forward.py. */\n#include "forward.h"\n')
    for slot in own:
        if slot.name not in BY_HAND:
            print_function(slot, known)
    for function, table in (("fake__fill", "OrtApi"), ("fake__fill_interop", "OrtInteropApi")):
        print(f"void {function}({table} *table) {{")
        for slot in own:
            if slot.table == table and slot.name not in BY_HAND:
                print(f"  table->{slot.name} = {slot.name};")
        print("}")


if __name__ == "__main__":
    {"slots": print_slots, "functions": print_functions}[sys.argv[1]](read(sys.argv[2]))
