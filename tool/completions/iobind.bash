# Completion for bash. Commands and options are those that the tool itself lists: `iobind complete [COMMAND]`.
_iobind() {
  local tool=$1 word=$2 before=$3 letter long value help words=''
  COMPREPLY=()
  if [ "$word" = = ]; then word=''; fi
  if [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$("$tool" complete 2>/dev/null | cut -f1) --help --version" -- "$word")
    return
  fi
  while IFS=$'\t' read -r letter long value help; do
    words+=" $long"
    if [ "$letter" != - ]; then words+=" $letter"; fi
    if [ "$value" != - ] && [[ $before == "$long" || $before == "$letter" ]]; then
      case $value in
        *'|'*) mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word") ;;
        *FILE* | *DIR* | PREFIX) _iobind_files "$word" ;;
      esac
      return
    fi
  done < <("$tool" complete "${COMP_WORDS[1]}" 2>/dev/null)
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
    *) _iobind_files "$word" ;;
  esac
}

_iobind_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

complete -F _iobind iobind
