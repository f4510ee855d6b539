# Completion for fish. Commands and options are those that the tool itself lists: `iobind complete [COMMAND]`.
function __iobind_words
    set -l tokens (commandline -opc)
    for line in (iobind complete $tokens[2] 2>/dev/null)
        set -l fields (string split \t -- $line) # letter, option, value, help
        if test "$fields[3]" != - && contains -- $tokens[-1] $fields[1] $fields[2]
            switch $fields[3]
                case '*|*'
                    string split '|' -- $fields[3]
                case '*FILE*' '*DIR*' PREFIX
                    __fish_complete_path (commandline -ct)
            end
            return
        end
    end
    if string match -q -- '-*' (commandline -ct)
        iobind complete $tokens[2] 2>/dev/null | while read -d \t -l letter option value help
            printf '%s\t%s\n' $option $help
            test $letter != -; and printf '%s\t%s\n' $letter $help
        end
    else
        __fish_complete_path (commandline -ct)
    end
end

complete -c iobind -f
complete -c iobind -n __fish_use_subcommand -a '(iobind complete 2>/dev/null)'
complete -c iobind -n 'not __fish_use_subcommand' -a '(__iobind_words)'
